#include "core/engine/model_routes.h"

#include <algorithm>
#include <utility>

#include "core/base/logging.h"
#include "core/base/status_macros.h"

namespace canopy {
namespace {

bool HasAllBackends(const RouteCosts& costs, const ModelInfo& model) {
  const std::vector<Backend> backends = RunnableBackends(model);
  return std::all_of(backends.begin(), backends.end(),
                     [&](Backend backend) { return costs.backends.count(backend) > 0; });
}

// Null where the file has none that fit.
absl::StatusOr<std::shared_ptr<const RouteCosts>> SavedCosts(const ModelRoutesOptions& options,
                                                             const ModelInfo& model) {
  if (options.costs_file.empty()) {
    return nullptr;
  }
  absl::StatusOr<RouteCosts> saved = ReadRouteCosts(options.costs_file, options.key);
  if (absl::IsNotFound(saved.status()) || (saved.ok() && !HasAllBackends(*saved, model))) {
    return nullptr;
  }
  CANOPY_RETURN_IF_ERROR(saved.status());
  LogInfo("route_costs_read", {{"file", options.costs_file}, {"model", model.name}});
  return std::make_shared<const RouteCosts>(*std::move(saved));
}

}  // namespace

absl::StatusOr<ModelRoutes> SetUpModelRoutes(ModelRunner& runner,
                                             const ModelRoutesOptions& options) {
  const ModelInfo& model = *runner.info();
  ModelRoutes routes;
  routes.default_policy =
      options.policy.value_or(model.fused_supported ? Policy::kMeasured : Policy::kReference);
  CANOPY_ASSIGN_OR_RETURN(routes.costs, SavedCosts(options, model));
  if (routes.costs != nullptr || routes.default_policy == Policy::kReference) {
    CANOPY_RETURN_IF_ERROR(WarmUpBackends(runner, options.measure.max_batch_tokens, kWarmUpSizes));
    return routes;
  }
  CANOPY_ASSIGN_OR_RETURN(RouteCosts costs, MeasureRouteCosts(runner, options.measure));
  if (!options.costs_file.empty()) {
    CANOPY_RETURN_IF_ERROR(WriteRouteCosts(options.costs_file, options.key, costs));
  }
  routes.costs = std::make_shared<const RouteCosts>(std::move(costs));
  return routes;
}

}  // namespace canopy
