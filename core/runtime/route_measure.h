// Times the backends of a loaded model on its device, which also runs each of them before the first
// request. Called while a model loads.
#ifndef CORE_RUNTIME_ROUTE_MEASURE_H_
#define CORE_RUNTIME_ROUTE_MEASURE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/engine/batch_tokens.h"
#include "core/engine/model_runner.h"
#include "core/tree/route_costs.h"

namespace canopy {

struct RouteMeasureOptions {
  int64_t max_batch_tokens = kCpuBatchTokens;  // the most tokens that one forward computes
  // The time for each backend. Sizes grow until the next one would exceed it. The `min_shapes`
  // smallest sizes always run.
  double budget_ms = 4'000;
  int min_shapes = 2;              // with fewer, costs cannot be separated
  int max_shapes = 100;            // at least min_shapes
  std::function<double()> now_ms;  // null = the monotonic clock
};

// Measures vectors of pseudo-random requests, small ones first, on every backend that may run. A
// backend that fails is logged and left out, with two exceptions: the error of the path backend is
// returned, and so is a lost device (UNAVAILABLE).
absl::StatusOr<RouteCosts> MeasureRouteCosts(ModelRunner& runner,
                                             const RouteMeasureOptions& options);

// The number of costs of a backend. Forecasts from fewer shapes are guesses.
inline constexpr int kMinShapes = 3;

// The forwards of a measurement, and their tokens and attention pairs.
struct MeasureWork {
  int64_t forwards = 0;
  int64_t tokens = 0;
  int64_t pairs = 0;
};
// Returns the most work that MeasureRouteCosts does for `backend` with the kMinShapes smallest
// shapes.
MeasureWork MinMeasureWork(Backend backend);

inline constexpr int kWarmUpSizes = 2;

// Runs the `num_sizes` smallest sizes on every backend, for vectors, or fewer if they are slow.
// Returns the errors of MeasureRouteCosts.
absl::Status WarmUpBackends(ModelRunner& runner, int64_t max_batch_tokens, int num_sizes);

// Runs each head of the model once, on the smallest size and the path backend. Returns the runner's
// errors.
absl::Status WarmUpHeads(ModelRunner& runner, int64_t max_batch_tokens);

}  // namespace canopy

#endif  // CORE_RUNTIME_ROUTE_MEASURE_H_
