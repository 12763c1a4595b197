// What a load test does, as its flags say.
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
  DriverOptions driver;  // But for its arrivals, which each run needs anew.
  PoolOptions pool;      // But for what the model says.
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

// From the flags as they stand. INVALID_ARGUMENT naming the flag, its value and its range.
absl::StatusOr<LoadOptions> LoadOptionsFromFlags();

// Arrivals of one run at `rate`; null = the closed loop. `trace` are the instants of a trace.
std::shared_ptr<Arrivals> MakeArrivals(const LoadOptions& options, double rate,
                                       const std::vector<absl::Duration>& trace);

// The rates that a run was to be sent at, one after the other from its start, as far as is known
// beforehand; empty for the closed loop. The rates of a trace are those of its parts.
std::vector<RateStep> OfferedRates(const LoadOptions& options, double rate,
                                   const std::vector<absl::Duration>& trace);

// In words, as `open loop, poisson, 100 a second; small=8,wide=1`.
std::string Describe(const LoadOptions& options);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_LOAD_OPTIONS_H_
