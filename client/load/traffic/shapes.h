// Kinds of requests by name: how many questions and candidates, and which tokens they share.
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

// Questions of one size. A prefix is the tokens of a state, which `questions_per_state` questions
// share, and the question's own.
struct QuestionGroup {
  int states = 1;
  int questions_per_state = 1;
  int state_tokens = 0;
  bool common_state = false;  // The state is the same in all requests.
  int question_tokens = 0;
  int candidates = 1;
  int candidate_tokens = 0;
  // Above 0 the candidates are the leaves of a binary tree of so many levels: there are
  // 2^branch_levels of them, and candidate_tokens is divided equally among the levels.
  int branch_levels = 0;
};

struct Shape {
  std::string name;
  std::string description;
  std::vector<QuestionGroup> groups;
};

// All shapes that have a name.
const std::vector<Shape>& NamedShapes();

// A named shape, or QUESTIONSxCANDIDATES:PREFIX+TOKENS, as 4x8:100+16. INVALID_ARGUMENT listing the
// names otherwise.
absl::StatusOr<Shape> ParseShape(absl::string_view text);

// A shape's share of a mix.
struct WeightedShape {
  Shape shape;
  double weight = 1;
};

// `SHAPE[=WEIGHT],...`, as small=8,wide=1. INVALID_ARGUMENT naming the part.
absl::StatusOr<std::vector<WeightedShape>> ParseMix(absl::string_view text);

// Length of the longest path.
int64_t MaxPathTokens(const Shape& shape);

// Fills `request` with questions of the shape, their tokens drawn below `vocab_size`. Questions and
// candidates are named by their place.
void AddQuestions(const Shape& shape, uint64_t vocab_size, std::mt19937_64* random,
                  v1::ScoreRequest* request);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_SHAPES_H_
