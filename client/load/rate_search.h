// Finds the highest request rate that meets the latency goal.
#ifndef CLIENT_LOAD_RATE_SEARCH_H_
#define CLIENT_LOAD_RATE_SEARCH_H_

#include "absl/functional/function_ref.h"

namespace canopy::client {

struct RateSearchOptions {
  double first_rate = 100;  // requests per second; above 0
  double precision = 0.05;  // stop when the failed rate is within this fraction of the best one
  int max_probes = 24;      // the most runs in all
};

// Returns the highest rate for which `meets` returned true; 0 = none. Doubles the rate until it
// fails (or halves it until it succeeds, if the first one fails), then bisects the interval on a
// logarithmic scale. Assumes that `meets` is true up to some rate and false beyond.
double SearchRate(const RateSearchOptions& options, absl::FunctionRef<bool(double rate)> meets);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_RATE_SEARCH_H_
