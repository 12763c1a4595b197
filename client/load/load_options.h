// The options of a load test, built from its flags.
#ifndef CLIENT_LOAD_LOAD_OPTIONS_H_
#define CLIENT_LOAD_LOAD_OPTIONS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/load/report/thresholds.h"
#include "client/load/traffic/arrivals.h"
#include "client/load/traffic/load_driver.h"
#include "client/load/traffic/request_pool.h"
#include "client/load/traffic/shapes.h"

namespace canopy::client {

enum class LoadKind { kClosed, kConstant, kPoisson, kStep, kTrace };

struct LoadOptions {
  DriverOptions driver;  // without arrivals, which each run creates anew
  PoolOptions pool;      // without the properties of the model
  LoadKind kind = LoadKind::kClosed;
  std::vector<WeightedShape> mix;
  std::string trace_file;
  double rate = 0;
  std::vector<RateStep> steps;
  bool search = false;
  double goal_quantile = 0.99;
  std::vector<Threshold> thresholds;
  int victims = 0;
  absl::Duration victim_life;
};

// Builds options from the current values of the flags. Returns INVALID_ARGUMENT with the flag, its
// value and its range.
absl::StatusOr<LoadOptions> LoadOptionsFromFlags();

// Returns the arrivals of one run at `rate`; null = the closed loop. `trace` are the time points of
// a trace.
std::shared_ptr<Arrivals> MakeArrivals(const LoadOptions& options, double rate,
                                       const std::vector<absl::Duration>& trace);

// Returns the intended rates of a run, one after the other from its start, as far as they are known
// in advance. Empty for the closed loop. The rates of a trace are those of its parts.
std::vector<RateStep> OfferedRates(const LoadOptions& options, double rate,
                                   const std::vector<absl::Duration>& trace);

// Returns a description, such as `open loop, poisson, 100 a second; small=8,wide=1`.
std::string Describe(const LoadOptions& options);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_LOAD_OPTIONS_H_
