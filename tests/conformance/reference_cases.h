// Token paths with what PyTorch computed for them, as oracle.py of this folder and gpu_check.py of
// tests/bench store them below a checkpoint:
//
//   oracle/cases.json         {case: [{"prefix": [..], "candidates": [[..], ..]}, ..], ..}
//   oracle/model.safetensors  CASE.vectors, CASE.scores, CASE.values, CASE.tokens, and with _half
//                             behind the name what a 16-bit type gave; all float32
#ifndef TESTS_CONFORMANCE_REFERENCE_CASES_H_
#define TESTS_CONFORMANCE_REFERENCE_CASES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/engine/model_runner.h"
#include "core/tree/path_batch.h"
#include "core/tree/route.h"
#include "core/tree/tree_plan.h"

namespace canopy {

// Row-major; a matrix that a checkpoint does not have is empty.
struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<float> values;

  const float* Row(int64_t row) const { return values.data() + row * columns; }
};

// Columns of ReferenceCase::tokens. kTopIds and kTopLogprobs begin kNumTop columns each.
inline constexpr int64_t kNumTop = 5;
inline constexpr float kSecondTemperature = 0.7F;  // the first is 1
enum TokenColumn : int64_t {
  kLogprob = 0,
  kSecondLogprob = 1,
  kEntropy = 2,
  kSecondEntropy = 3,
  kMinLogit = 4,
  kMaxLogit = 5,
  kTopIds = 6,
  kTopLogprobs = kTopIds + kNumTop,  // at temperature 1
  kRank = kTopLogprobs + kNumTop,    // from 1
  kLowestRank,                       // that the token may have, given the tolerance of logits
  kHighestRank,
};

struct ReferenceOutputs {
  Matrix vectors;  // [paths, hidden]
  Matrix scores;   // [paths, labels]
  Matrix values;   // [tokens, 1] of every token of every path
  Matrix tokens;   // [tokens, TokenColumn] of every token of every path but its first
};

struct ReferenceCase {
  std::shared_ptr<const PathBatch> batch;
  ReferenceOutputs exact;  // in float32 arithmetic
  ReferenceOutputs half;   // in the type that the checkpoint is stored in, where that is narrow
};

// The cases below `folder`, by name. NOT_FOUND or DATA_LOSS.
absl::StatusOr<std::map<std::string, ReferenceCase>> ReadReferenceCases(const std::string& folder);

// What a runner answers, in request order.
struct RunAnswer {
  Matrix vectors;
  Matrix scores;  // empty without a reward head
  bool finite = true;
};

// Runs every part of `plan` for float32 vectors, and scores where the model has a head.
absl::StatusOr<RunAnswer> RunPlan(ModelRunner& runner, const RequestPlan& plan);

// Squared norm of difference over squared norm of `expected`, for each row; infinite where it is
// not a number. Both have the same shape.
std::vector<double> SquaredRelativeErrors(const Matrix& actual, const Matrix& expected);

}  // namespace canopy

#endif  // TESTS_CONFORMANCE_REFERENCE_CASES_H_
