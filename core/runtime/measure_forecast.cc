#include "core/runtime/measure_forecast.h"

#include <limits>

#include "absl/strings/match.h"
#include "core/runtime/route_measure.h"

namespace canopy {
namespace {

// The speed of a device: the time of one layer in one forward, whatever its tokens, and the
// arithmetic. About half of the measured speed, so that a slower machine also keeps to the limit.
struct Speed {
  double layer_seconds;
  double flops_per_second;
};

constexpr Speed kCpuFloat32 = {5e-4, 2.5e10};
constexpr Speed kCpuHalf = {1e-3, 5e9};
// The fused backend is not included. Each new shape may load kernels.
constexpr Speed kCuda = {5e-3, 2e12};

Speed SpeedOf(const ModelInfo& model) {
  if (absl::StartsWith(model.device, "cuda")) {
    return kCuda;
  }
  return model.dtype == "float32" ? kCpuFloat32 : kCpuHalf;
}

}  // namespace

double ForecastMeasureSeconds(const ModelInfo& model) {
  if (model.num_layers <= 0 || model.layer_weights <= 0) {
    return std::numeric_limits<double>::infinity();
  }
  const Speed speed = SpeedOf(model);
  const auto layers = static_cast<double>(model.num_layers);
  double seconds = 0;
  for (const Backend backend : RunnableBackends(model.backend_support())) {
    const MeasureWork work = MinMeasureWork(backend);
    // Each weight takes part in a multiplication and an addition per token. Each attention pair
    // multiplies queries with keys, and probabilities with values.
    const double flops =
        layers *
        (2.0 * static_cast<double>(model.layer_weights) * static_cast<double>(work.tokens) +
         4.0 * static_cast<double>(model.attention_size) * static_cast<double>(work.pairs));
    seconds += static_cast<double>(work.forwards) * layers * speed.layer_seconds +
               flops / speed.flops_per_second;
  }
  return seconds;
}

}  // namespace canopy
