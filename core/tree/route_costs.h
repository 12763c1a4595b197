// What forwards cost, forecast from their sizes. The coefficients are measured on a device
// (core/runtime/route_measure); everything here is a pure function of numbers.
#ifndef CORE_TREE_ROUTE_COSTS_H_
#define CORE_TREE_ROUTE_COSTS_H_

#include <cstdint>
#include <map>

#include "absl/types/span.h"
#include "core/tree/route.h"

namespace canopy {

// What a request makes one backend run, over all its forwards.
struct RouteLoad {
  int64_t forwards = 0;
  int64_t groups = 0;  // attention calls a layer beyond one a forward: those of segment groups
  int64_t tokens = 0;  // slots, padding included
  int64_t pairs = 0;   // query-key pairs that attention computes, masked ones included
};

// One backend on one device and model. None is negative.
struct BackendCost {
  double forward_ms = 0;
  double group_ms = 0;
  double token_ms = 0;
  double pair_ms = 0;
};

// Of the backends that were measured.
struct RouteCosts {
  std::map<Backend, BackendCost> backends;
};

// Planning, upload, forward and one copy down; what heads over many tokens cost is left out, since
// it is the same on every forest.
double ForecastMs(const BackendCost& cost, const RouteLoad& load);

struct CostSample {
  RouteLoad load;
  double ms = 0;  // > 0
};

// The cost with the least sum of squared relative errors over the samples. Coefficients that the
// samples do not tell apart are zero but for one of them. No samples: all zero.
BackendCost FitCost(absl::Span<const CostSample> samples);

}  // namespace canopy

#endif  // CORE_TREE_ROUTE_COSTS_H_
