// Chooses the policy and the costs by which AUTO is routed on a newly loaded model.
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
  // The policy for requests that name none. Unset = measured if the fused backend runs, if the file
  // has costs, or if measuring is forecast to take at most kMaxMeasureSeconds; else reference.
  std::optional<Policy> policy;
  std::string costs_file;  // the path for route_costs_file.h; empty = none
  RouteCostsKey key;
  RouteMeasureOptions measure;
};

struct ModelRoutes {
  Policy default_policy = Policy::kReference;
  std::string policy_reason;                // the reason for the policy
  std::shared_ptr<const RouteCosts> costs;  // null = not measured
};

// Takes the costs from the file if it has them for every backend that may run. Otherwise the
// reference policy has no costs, and the measured policy measures them and writes them to the file.
// If nothing is measured, all backends are warmed up. If the policy is automatic because measuring
// is short, measuring all backends takes at most the forecast limit. A file that cannot be read or
// written causes a warning in the log. Returns INVALID_ARGUMENT if the file contains something
// else, and the errors of its parts.
absl::StatusOr<ModelRoutes> SetUpModelRoutes(ModelRunner& runner,
                                             const ModelRoutesOptions& options);

}  // namespace canopy

#endif  // CORE_RUNTIME_MODEL_ROUTES_H_
