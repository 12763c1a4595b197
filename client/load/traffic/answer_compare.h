// Compares the numbers of two answers, for verify mode.
#ifndef CLIENT_LOAD_TRAFFIC_ANSWER_COMPARE_H_
#define CLIENT_LOAD_TRAFFIC_ANSWER_COMPARE_H_

#include <string>

#include "absl/types/optional.h"
#include "canopy/v1/scorer.pb.h"

namespace canopy::client {

// The first number that differs.
struct Difference {
  int question = 0;    // -1 = in the whole answer
  int candidate = 0;   // -1 = in the whole question
  std::string output;  // the field and index, such as `token_logprobs[3]` or `vector[7]`
  std::string expected;
  std::string got;
};

// Returns a text such as `questions[2].candidates[5].score: expected 0.5, got 0.25`.
std::string ToString(const Difference& difference);

// Compares, in request order, that every candidate is there once, under its id and with its path's
// length, and its scores, label scores, sums of log-probs, per-token lists of numbers, reasons and
// vectors. A float fits when it differs by at most `tolerance` times the largest magnitude that its
// output has in the expected answer, and 1 at least: scores near zero are small differences of
// large numbers, and round as those do. A rank fits when it differs by at most 1 + 100 `tolerance`
// of itself, or not at all if the tolerance is 0. What one answer has, the other must have.
// Probabilities, top log-probs (whose ranks may swap within rounding) and answers are not compared.
// `expected` must have passed CheckScoreResponse; `got` may be anything.
absl::optional<Difference> FindDifference(const v1::ScoreResponse& expected,
                                          const v1::ScoreResponse& got, double tolerance);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_ANSWER_COMPARE_H_
