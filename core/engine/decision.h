// Computes probabilities and the answer of a question from the scores of its candidates. Pure
// functions, without LibTorch.
#ifndef CORE_ENGINE_DECISION_H_
#define CORE_ENGINE_DECISION_H_

#include <cstdint>
#include <variant>
#include <vector>

#include "absl/types/span.h"

namespace canopy {

enum class QuestionKind {
  kPlain,    // no answer
  kBoolean,  // two candidates; the first stands for true
  kChoice,   // one of the candidates
  kScore,    // the candidates are levels, lowest first
};

// The temperatures by which the scores of each kind of question are divided before the softmax; >
// 0.
struct KindTemperatures {
  double boolean = 1;
  double choice = 1;
  double score = 1;

  // Returns the temperature of `kind`; 1 for kPlain.
  double Of(QuestionKind kind) const;
};

struct BooleanAnswer {
  float probability = 0;  // the probability of the first candidate
  bool value = false;     // probability >= 0.5
};

struct ChoiceAnswer {
  int32_t index = 0;      // the index of the most probable candidate, the lower one on a tie
  float probability = 0;  // the probability of this candidate
  // the difference to the second most probable candidate; `probability` if there is none
  float margin = 0;
};

struct ScoreAnswer {
  int32_t level = 0;   // the most probable level, from 0, the lower one on a tie
  float expected = 0;  // sum of level x probability
};

// The answer of a question; monostate for a plain one.
using Answer = std::variant<std::monostate, BooleanAnswer, ChoiceAnswer, ScoreAnswer>;

// Returns softmax(scores / temperature), computed in double precision. Returns an empty vector if a
// score is not finite, because the probabilities of the others cannot be known.
std::vector<float> Probabilities(absl::Span<const float> scores, double temperature);

// Computes an answer from the probabilities as they are sent, so that the two agree. Precondition:
// `probabilities` has at least one element, and two for kBoolean.
Answer AnswerOf(QuestionKind kind, absl::Span<const float> probabilities);

}  // namespace canopy

#endif  // CORE_ENGINE_DECISION_H_
