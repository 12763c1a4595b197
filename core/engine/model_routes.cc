#include "core/engine/model_routes.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "core/base/logging.h"
#include "core/base/status_macros.h"

namespace canopy {
namespace {

bool HasAllBackends(const RouteCosts& costs, const ModelInfo& model) {
  const std::vector<Backend> backends = RunnableBackends(model);
  return std::all_of(backends.begin(), backends.end(),
                     [&](Backend backend) { return costs.backends.count(backend) > 0; });
}

// The file is a cache: without it a server measures again, and serves as well.
void WarnOfFile(absl::string_view event, const ModelRoutesOptions& options,
                const absl::Status& status) {
  LogWarning(event, {{"file", options.costs_file}, {"error", std::string(status.message())}});
}

// Null where the file has none that fit, or cannot be used. INVALID_ARGUMENT if it holds something
// else: the flag names the wrong file.
absl::StatusOr<std::shared_ptr<const RouteCosts>> SavedCosts(const ModelRoutesOptions& options,
                                                             const ModelInfo& model) {
  if (options.costs_file.empty()) {
    return nullptr;
  }
  absl::StatusOr<RouteCosts> saved = ReadRouteCosts(options.costs_file, options.key);
  if (absl::IsNotFound(saved.status()) || (saved.ok() && !HasAllBackends(*saved, model))) {
    return nullptr;
  }
  if (absl::IsFailedPrecondition(saved.status())) {
    WarnOfFile("route_costs_unusable", options, saved.status());
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
    if (const absl::Status written = WriteRouteCosts(options.costs_file, options.key, costs);
        !written.ok()) {
      WarnOfFile("route_costs_not_written", options, written);
    }
  }
  routes.costs = std::make_shared<const RouteCosts>(std::move(costs));
  return routes;
}

}  // namespace canopy
