// A checkpoint that a parity test's script has made, loaded, with the ways to run it.
#ifndef TESTS_CONFORMANCE_PARITY_CHECKPOINT_H_
#define TESTS_CONFORMANCE_PARITY_CHECKPOINT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/engine/model_runner.h"
#include "core/tree/tree_plan.h"
#include "tests/conformance/reference_cases.h"

namespace canopy {

// float32 against float32, for every candidate.
inline constexpr double kMaxFloat32Error = 1e-4;
// Our error in a 16-bit type over transformers' in the same type, both against float32 arithmetic
// on the same weights, over at least this many candidates.
inline constexpr double kMaxHalfErrorRatio = 1.25;
inline constexpr size_t kMinHalfCandidates = 256;

struct ParityRoute {
  const char* name;
  Backend backend;
  Packing packing;
  int64_t max_batch_tokens;
};

// The longest path has 256 tokens, so the last ones run in many parts.
const std::vector<ParityRoute>& ParityRoutes();
// Those that models with a sliding window run.
const std::vector<ParityRoute>& ParityPathRoutes();

// Fails the running test, and is of no further use, when the folder does not load.
class ParityCheckpoint {
 public:
  // `name` is a folder below the test's checkpoints.
  ParityCheckpoint(absl::string_view name, absl::string_view dtype);

  const std::map<std::string, ReferenceCase>& cases() const { return cases_; }
  ModelRunner& runner() const { return *runner_; }
  const ModelInfo& info() const { return *runner_->info(); }

  RequestPlan Plan(const ReferenceCase& item, const ParityRoute& route) const;

 private:
  std::unique_ptr<ModelRunner> runner_;
  std::map<std::string, ReferenceCase> cases_;
};

// Runs every case by `route` and expects transformers' float32 vectors and scores.
void ExpectFloat32Parity(const ParityCheckpoint& checkpoint, const ParityRoute& route);

// Runs every case by `route` on a checkpoint loaded in a 16-bit type and compares errors over all
// candidates. `half` is the matrix that transformers computed in that type.
void ExpectHalfParity(const ParityCheckpoint& checkpoint, const ParityRoute& route,
                      Matrix ReferenceCase::*half);

}  // namespace canopy

#endif  // TESTS_CONFORMANCE_PARITY_CHECKPOINT_H_
