// How AUTO is to be routed on a model that has just been loaded: by which policy, by which costs.
#ifndef CORE_RUNTIME_MODEL_ROUTES_H_
#define CORE_RUNTIME_MODEL_ROUTES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/engine/model_runner.h"
#include "core/runtime/route_costs_file.h"
#include "core/runtime/route_measure.h"
#include "core/tree/route.h"
#include "core/tree/route_costs.h"

namespace canopy {

struct ModelRoutesOptions {
  // Of requests that leave it open; unset = measured where fused runs, where the file has costs, or
  // where measuring is forecast to take at most kMaxMeasureSeconds; else reference.
  std::optional<Policy> policy;
  std::string costs_file;  // of route_costs_file.h; empty = none
  RouteCostsKey key;
  RouteMeasureOptions measure;
};

struct ModelRoutes {
  Policy default_policy = Policy::kReference;
  std::string policy_reason;                // why
  std::shared_ptr<const RouteCosts> costs;  // null = not measured
};

// Takes the costs from the file when it has them for every backend that may run. Otherwise the
// reference policy goes without, and the measured one has them measured and written there. Where
// nothing is measured, all backends are warmed up. A policy that was left open because measuring is
// short gets as much time for all backends as it was forecast to take at most. A file that cannot
// be read or written is a warning in the log; one that holds something else is INVALID_ARGUMENT.
// Other errors as of its
// parts.
absl::StatusOr<ModelRoutes> SetUpModelRoutes(ModelRunner& runner,
                                             const ModelRoutesOptions& options);

}  // namespace canopy

#endif  // CORE_RUNTIME_MODEL_ROUTES_H_
