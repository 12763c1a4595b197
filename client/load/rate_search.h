// Finds the highest rate that a server bears.
#ifndef CLIENT_LOAD_RATE_SEARCH_H_
#define CLIENT_LOAD_RATE_SEARCH_H_

#include "absl/functional/function_ref.h"

namespace canopy::client {

struct RateSearchOptions {
  double first_rate = 100;  // Requests a second; above 0.
  double precision = 0.05;  // Stop when the rate that failed is within this share of the best.
  int max_probes = 24;      // In all.
};

// The highest rate that was probed and met; 0 = none was. Doubles the rate until it fails (halves
// it until it does not, when the first one fails), then halves the gap in between, on a logarithmic
// scale. `meets` is taken to be true up to some rate and false beyond.
double SearchRate(const RateSearchOptions& options, absl::FunctionRef<bool(double rate)> meets);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_RATE_SEARCH_H_
