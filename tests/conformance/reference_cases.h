// Token paths with the results of PyTorch, as oracle.py of this folder and gpu_check.py of
// tests/bench store them below a checkpoint:
//
//   oracle/cases.json         {case: [{"prefix": [..], "candidates": [[..], ..]}, ..], ..}
//   oracle/model.safetensors  CASE.vectors, CASE.scores, CASE.values, CASE.tokens, and with the
//                             suffix _half the results of a 16-bit type; all float32
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

// Row-major. A matrix that a checkpoint does not have is empty.
struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<float> values;

  const float* Row(int64_t row) const { return values.data() + row * columns; }
};

// The columns of ReferenceCase::tokens. kTopIds and kTopLogprobs start kNumTop columns each.
inline constexpr int64_t kNumTop = 5;
inline constexpr float kSecondTemperature = 0.7F;  // the first temperature is 1
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
  kLowestRank,                       // the lowest rank of the token within the tolerance of logits
  kHighestRank,
};

struct ReferenceOutputs {
  Matrix vectors;  // [paths, hidden]
  Matrix scores;   // [paths, labels]
  Matrix values;   // [tokens, 1] for every token of every path
  Matrix tokens;   // [tokens, TokenColumn] for every token of every path except its first
};

struct ReferenceCase {
  std::shared_ptr<const PathBatch> batch;
  ReferenceOutputs exact;  // in float32 arithmetic
  ReferenceOutputs half;   // in the type of the checkpoint, if it has 16 bits
};

// Reads the cases below `folder`, by name. Returns NOT_FOUND or DATA_LOSS if that fails.
absl::StatusOr<std::map<std::string, ReferenceCase>> ReadReferenceCases(const std::string& folder);

// The results of a runner, in request order.
struct RunAnswer {
  Matrix vectors;
  Matrix scores;  // empty without a reward head
  bool finite = true;
};

// Runs every part of `plan` for float32 vectors, and for scores if the model has a head.
absl::StatusOr<RunAnswer> RunPlan(ModelRunner& runner, const RequestPlan& plan);

// Returns the squared norm of the difference divided by the squared norm of `expected`, for each
// row; infinite if it is not a number. Precondition: both matrices have the same shape.
std::vector<double> SquaredRelativeErrors(const Matrix& actual, const Matrix& expected);

}  // namespace canopy

#endif  // TESTS_CONFORMANCE_REFERENCE_CASES_H_
