// Times the backends of a loaded model on its device, and so has each of them run before the first
// request comes. Called while a model loads.
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
  int64_t max_batch_tokens = kCpuBatchTokens;  // computed tokens of one forward
  // Of each backend. Sizes grow until the next one would pass it; the `min_shapes` smallest always
  // run.
  double budget_ms = 4'000;
  int min_shapes = 2;              // fewer cannot be told apart
  int max_shapes = 100;            // at least min_shapes
  std::function<double()> now_ms;  // null = the monotonic clock
};

// Vectors of random-like requests, small ones first, on every backend that may run. A backend that
// fails is left out and logged, but for path, whose error is returned, and a lost device, which
// ends everything (UNAVAILABLE).
absl::StatusOr<RouteCosts> MeasureRouteCosts(ModelRunner& runner,
                                             const RouteMeasureOptions& options);

// As many as a backend has costs: forecasts from fewer are guesses.
inline constexpr int kMinShapes = 3;

// Forwards, and the tokens and attention pairs in them.
struct MeasureWork {
  int64_t forwards = 0;
  int64_t tokens = 0;
  int64_t pairs = 0;
};
// What MeasureRouteCosts does for `backend` with the kMinShapes smallest shapes, at most.
MeasureWork MinMeasureWork(Backend backend);

inline constexpr int kWarmUpSizes = 2;

// Runs the `num_sizes` smallest sizes on every backend, for vectors, or one where that is slow.
// Errors likewise.
absl::Status WarmUpBackends(ModelRunner& runner, int64_t max_batch_tokens, int num_sizes);

// Runs each head that the model has once, on the smallest size and the path backend. The runner's
// errors.
absl::Status WarmUpHeads(ModelRunner& runner, int64_t max_batch_tokens);

}  // namespace canopy

#endif  // CORE_RUNTIME_ROUTE_MEASURE_H_
