// Measures the time for measuring the costs of a model's backends at the start, and compares it
// with the forecast that --policy=auto uses. The unit is seconds of user CPU time, so that a busy
// machine matters little.
//
//   measure_benchmark CONFIG.json...   each with seeded random weights; one thread, float32
#include <sys/resource.h>

#include <cstdio>
#include <string>

#include "absl/status/statusor.h"
#include "core/runtime/measure_forecast.h"
#include "core/runtime/route_measure.h"
#include "core/runtime/torch_runner.h"

namespace canopy {
namespace {

double UserSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec) / 1e6;
}

absl::Status Measure(const std::string& config, const std::string& dtype) {
  TorchRunnerOptions options;
  options.source.name = "model";
  options.source.source = "synthetic:" + config;
  options.model.device = "cpu";
  options.model.dtype = dtype;
  options.model.threads = 1;
  auto runner = LoadTorchRunner(options);
  if (!runner.ok()) {
    return runner.status();
  }
  const ModelInfo& model = *(*runner)->info();
  RouteMeasureOptions measure;
  measure.budget_ms = 1e9;
  measure.max_shapes = kMinShapes;
  const double begin = UserSeconds();
  const auto costs = MeasureRouteCosts(**runner, measure);
  const double seconds = UserSeconds() - begin;
  std::printf("%s %s: %lld layers of %lld weights, forecast %.2f s, measured %.2f s\n",
              config.c_str(), dtype.c_str(), static_cast<long long>(model.num_layers),
              static_cast<long long>(model.layer_weights), ForecastMeasureSeconds(model), seconds);
  return costs.status();
}

}  // namespace
}  // namespace canopy

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    for (const char* dtype : {"float32"}) {
      const absl::Status status = canopy::Measure(argv[i], dtype);
      if (!status.ok()) {
        std::fprintf(stderr, "%s: %s\n", argv[i], status.ToString().c_str());
        return 1;
      }
    }
  }
  return 0;
}
