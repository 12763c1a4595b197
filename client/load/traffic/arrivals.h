// When an open loop sends its requests: instants that do not depend on any answer.
#ifndef CLIENT_LOAD_TRAFFIC_ARRIVALS_H_
#define CLIENT_LOAD_TRAFFIC_ARRIVALS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace canopy::client {

// Thread-compatible.
class Arrivals {
 public:
  virtual ~Arrivals() = default;

  // The next intended instant after the start, never before the last one; absent at the end.
  virtual absl::optional<absl::Duration> Next() = 0;
};

// Request i at i / rate. Never ends. `rate` is in requests a second, above 0.
std::unique_ptr<Arrivals> ConstantArrivals(double rate);

// A Poisson process: independent, exponentially distributed gaps of mean 1 / rate. Never ends.
std::unique_ptr<Arrivals> PoissonArrivals(double rate, uint64_t seed);

// One rate after the other.
struct RateStep {
  double rate = 0;  // Requests a second; 0 = a pause.
  absl::Duration duration;
};

// Within each step request i comes i / rate after the step's start. Ends with the last step.
std::unique_ptr<Arrivals> StepArrivals(std::vector<RateStep> steps);

// At the given instants, which must not decrease.
std::unique_ptr<Arrivals> TraceArrivals(std::vector<absl::Duration> instants);

// `RATExDURATION,...`, as `100x10s,500x5s,0x1s`. INVALID_ARGUMENT naming the step.
absl::StatusOr<std::vector<RateStep>> ParseRateSteps(absl::string_view text);

// Sum of the durations.
absl::Duration TotalDuration(const std::vector<RateStep>& steps);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_ARRIVALS_H_
