// From the scores of a question's candidates to probabilities and to the answer that its kind asks
// for. Pure functions, without LibTorch.
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

// What scores of a kind of question are divided by before the softmax. Above 0.
struct KindTemperatures {
  double boolean = 1;
  double choice = 1;
  double score = 1;

  // 1 for kPlain.
  double Of(QuestionKind kind) const;
};

struct BooleanAnswer {
  float probability = 0;  // of the first candidate
  bool value = false;     // probability >= 0.5
};

struct ChoiceAnswer {
  int32_t index = 0;      // of the most probable candidate; ties go to the lower index
  float probability = 0;  // its own
  float margin = 0;       // its own less the second's; all of it where there is no second
};

struct ScoreAnswer {
  int32_t level = 0;   // the most probable one, from 0; ties go to the lower level
  float expected = 0;  // sum of level x probability
};

// Of a plain question: none.
using Answer = std::variant<std::monostate, BooleanAnswer, ChoiceAnswer, ScoreAnswer>;

// softmax(scores / temperature), computed in double precision. Empty when a score is not finite:
// the share of the others cannot be known.
std::vector<float> Probabilities(absl::Span<const float> scores, double temperature);

// `probabilities` as sent, so that an answer agrees with the distribution beside it; at least one,
// and two for kBoolean.
Answer AnswerOf(QuestionKind kind, absl::Span<const float> probabilities);

}  // namespace canopy

#endif  // CORE_ENGINE_DECISION_H_
