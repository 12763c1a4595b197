// The times at which an open loop sends its requests, which do not depend on any answer.
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

  // Returns the next intended time after the start, never before the previous one; absent at the
  // end.
  virtual absl::optional<absl::Duration> Next() = 0;
};

// Sends request i at i / rate, without end. `rate` is in requests per second, above 0.
std::unique_ptr<Arrivals> ConstantArrivals(double rate);

// Sends a Poisson process: independent, exponentially distributed gaps of mean 1 / rate, without
// end.
std::unique_ptr<Arrivals> PoissonArrivals(double rate, uint64_t seed);

// One step of a sequence of rates.
struct RateStep {
  double rate = 0;  // requests per second; 0 = a pause
  absl::Duration duration;
};

// Sends request i of each step i / rate after the step's start. Ends with the last step.
std::unique_ptr<Arrivals> StepArrivals(std::vector<RateStep> steps);

// Sends at the given times, which must not decrease.
std::unique_ptr<Arrivals> TraceArrivals(std::vector<absl::Duration> instants);

// Parses `RATExDURATION,...`, such as `100x10s,500x5s,0x1s`. Returns INVALID_ARGUMENT with the
// wrong step.
absl::StatusOr<std::vector<RateStep>> ParseRateSteps(absl::string_view text);

// Returns the sum of the durations.
absl::Duration TotalDuration(const std::vector<RateStep>& steps);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_ARRIVALS_H_
