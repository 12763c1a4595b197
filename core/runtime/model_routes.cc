#include "core/runtime/model_routes.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/logging.h"
#include "base/status_macros.h"
#include "core/runtime/measure_forecast.h"

namespace canopy {
namespace {

bool HasAllBackends(const RouteCosts& costs, const ModelInfo& model) {
  const std::vector<Backend> backends = RunnableBackends(model.backend_support());
  return std::all_of(backends.begin(), backends.end(),
                     [&](Backend backend) { return costs.backends.count(backend) > 0; });
}

// Logs a problem with the file. The file is a cache: without it the server measures again, and
// serves as well.
void WarnOfFile(absl::string_view event, const ModelRoutesOptions& options,
                const absl::Status& status) {
  LogWarning(event, {{"file", options.costs_file}, {"error", std::string(status.message())}});
}

// Returns the saved costs; null if the file has none that fit, or cannot be used. Returns
// INVALID_ARGUMENT if the file contains something else, because the flag then names the wrong file.
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

// Sets the policy and its reason, which depend on the model, the device and the options, but never
// on the clock.
void ChoosePolicy(const ModelRoutesOptions& options, const ModelInfo& model, ModelRoutes& routes) {
  const auto choose = [&routes](Policy policy, std::string reason) {
    routes.default_policy = policy;
    routes.policy_reason = std::move(reason);
  };
  const double seconds = ForecastMeasureSeconds(model);
  if (options.policy.has_value()) {
    choose(*options.policy, "--policy names it");
  } else if (model.fused_supported) {
    choose(Policy::kMeasured, "the fused backend runs, which the reference rules do not know");
  } else if (routes.costs != nullptr) {
    choose(Policy::kMeasured, "--route_costs has the costs of this model");
  } else if (seconds <= kMaxMeasureSeconds) {
    choose(Policy::kMeasured, absl::StrFormat("measuring is forecast to take %.2g s, at most %g s",
                                              seconds, kMaxMeasureSeconds));
  } else if (std::isfinite(seconds)) {
    choose(Policy::kReference,
           absl::StrFormat("measuring is forecast to take %.2g s, more than %g s", seconds,
                           kMaxMeasureSeconds));
  } else {
    choose(Policy::kReference, "the model's size is unknown, and so what measuring takes");
  }
}

// If the policy is automatic and the fused backend does not run, the measurement takes no longer
// than forecast.
RouteMeasureOptions MeasureOptions(const ModelRoutesOptions& options, const ModelInfo& model) {
  RouteMeasureOptions measure = options.measure;
  if (!options.policy.has_value() && !model.fused_supported) {
    measure.min_shapes = kMinShapes;
    measure.budget_ms = kMaxMeasureSeconds * 1000 /
                        static_cast<double>(RunnableBackends(model.backend_support()).size());
  }
  return measure;
}

}  // namespace

absl::StatusOr<ModelRoutes> SetUpModelRoutes(ModelRunner& runner,
                                             const ModelRoutesOptions& options) {
  const ModelInfo& model = *runner.info();
  ModelRoutes routes;
  CANOPY_ASSIGN_OR_RETURN(routes.costs, SavedCosts(options, model));
  ChoosePolicy(options, model, routes);
  LogInfo("policy_chosen", {{"model", model.name},
                            {"policy", PolicyName(routes.default_policy)},
                            {"reason", routes.policy_reason}});
  if (routes.costs != nullptr || routes.default_policy == Policy::kReference) {
    CANOPY_RETURN_IF_ERROR(WarmUpBackends(runner, options.measure.max_batch_tokens, kWarmUpSizes));
    return routes;
  }
  CANOPY_ASSIGN_OR_RETURN(RouteCosts costs,
                          MeasureRouteCosts(runner, MeasureOptions(options, model)));
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
