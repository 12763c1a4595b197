// Forecasts of the time of forwards from their sizes. The coefficients are measured on a device
// (core/runtime/route_measure); everything here is a pure function of numbers.
#ifndef CORE_TREE_ROUTE_COSTS_H_
#define CORE_TREE_ROUTE_COSTS_H_

#include <cstdint>
#include <map>

#include "absl/types/span.h"
#include "core/tree/route.h"

namespace canopy {

// The work of a request on one backend, summed over all its forwards.
struct RouteLoad {
  int64_t forwards = 0;
  int64_t groups = 0;  // attention calls per layer beyond one per forward, for segment groups
  int64_t tokens = 0;  // slots, padding included
  int64_t pairs = 0;   // query-key pairs that attention computes, masked ones included
};

// The cost coefficients of one backend on one device and model. None is negative.
struct BackendCost {
  double forward_ms = 0;
  double group_ms = 0;
  double token_ms = 0;
  double pair_ms = 0;
};

// The costs of all measured backends.
struct RouteCosts {
  std::map<Backend, BackendCost> backends;
};

// Returns the forecast time of planning, upload, forwards and one copy to the host. The cost of
// heads over many tokens is left out, because it is the same for every backend.
double ForecastMs(const BackendCost& cost, const RouteLoad& load);

struct CostSample {
  RouteLoad load;
  double ms = 0;  // > 0
};

// Returns the cost with the least sum of squared relative errors over the samples. If the samples
// cannot distinguish several coefficients, all but one of them are zero. Returns all zeros if there
// are no samples.
BackendCost FitCost(absl::Span<const CostSample> samples);

}  // namespace canopy

#endif  // CORE_TREE_ROUTE_COSTS_H_
