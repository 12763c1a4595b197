// Named kinds of requests: the numbers of questions and candidates, and the tokens that they share.
#ifndef CLIENT_LOAD_TRAFFIC_SHAPES_H_
#define CLIENT_LOAD_TRAFFIC_SHAPES_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "canopy/v1/scorer.pb.h"

namespace canopy::client {

// Questions of the same size. A prefix consists of the tokens of a state, which
// `questions_per_state` questions share, and of the question's own tokens.
struct QuestionGroup {
  int states = 1;
  int questions_per_state = 1;
  int state_tokens = 0;
  bool common_state = false;  // all requests have the same state
  int question_tokens = 0;
  int candidates = 1;
  int candidate_tokens = 0;
  // If above 0, the candidates are the leaves of a binary tree with this number of levels: there
  // are 2^branch_levels of them, and candidate_tokens is divided equally among the levels.
  int branch_levels = 0;
};

struct Shape {
  std::string name;
  std::string description;
  std::vector<QuestionGroup> groups;
};

// Returns all shapes with a name.
const std::vector<Shape>& NamedShapes();

// Parses a named shape, or QUESTIONSxCANDIDATES:PREFIX+TOKENS, such as 4x8:100+16. Returns
// INVALID_ARGUMENT with all names otherwise.
absl::StatusOr<Shape> ParseShape(absl::string_view text);

// A shape and its weight in a mix.
struct WeightedShape {
  Shape shape;
  double weight = 1;
};

// Parses `SHAPE[=WEIGHT],...`, such as small=8,wide=1. Returns INVALID_ARGUMENT with the wrong
// part.
absl::StatusOr<std::vector<WeightedShape>> ParseMix(absl::string_view text);

// Returns the length of the longest path.
int64_t MaxPathTokens(const Shape& shape);

// Fills `request` with questions of the shape, with random tokens below `vocab_size`. The ids of
// questions and candidates are their positions.
void AddQuestions(const Shape& shape, uint64_t vocab_size, std::mt19937_64* random,
                  v1::ScoreRequest* request);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_SHAPES_H_
