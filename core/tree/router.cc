#include "core/tree/router.h"

#include "absl/strings/str_cat.h"

namespace canopy {
namespace {

Route PathRoute(Reason reason) { return {Backend::kPath, Layout::kNone, reason}; }
Route TreeRoute(Backend backend) { return {backend, Layout::kNone, Reason::kNone}; }

}  // namespace

absl::Status ValidateRouteOptions(const RouteOptions& options) {
  if (options.max_mask_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_mask_bytes: ", options.max_mask_bytes, " is negative"));
  }
  if (options.policy == Policy::kMeasured && options.costs == nullptr) {
    return absl::FailedPreconditionError(
        "policy: measured needs costs that were not measured; it has: reference");
  }
  switch (options.packing) {
    case Packing::kAuto:
    case Packing::kPadded:
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("packing: unknown value ", static_cast<int>(options.packing)));
  }
  switch (options.backend) {
    case Backend::kAuto:
    case Backend::kPath:
      return absl::OkStatus();
    case Backend::kDense:
    case Backend::kSegmented:
      if (!options.tree_supported) {
        return absl::FailedPreconditionError(
            absl::StrCat("backend: ", BackendName(options.backend),
                         " needs full attention in every layer; this model runs on path"));
      }
      return absl::OkStatus();
    case Backend::kFused:
      if (!options.fused_supported) {
        return absl::FailedPreconditionError(
            absl::StrCat("backend: fused does not run on this model and device; it has: ",
                         ListBackends({options.tree_supported, options.fused_supported})));
      }
      return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("backend: unknown value ", static_cast<int>(options.backend)));
}

bool IsRoutedByCost(const RouteOptions& options) {
  return options.policy == Policy::kMeasured && options.backend == Backend::kAuto &&
         options.tree_supported;
}

std::optional<Route> RouteWithoutTrie(const RouteOptions& options, const PlanCounts& counts) {
  if (options.backend == Backend::kPath) {
    return PathRoute(Reason::kRequested);
  }
  if (options.backend == Backend::kFused) {
    return std::nullopt;
  }
  if (!options.tree_supported) {
    return PathRoute(Reason::kUnsupportedLayers);
  }
  if (options.backend == Backend::kAuto && !IsRoutedByCost(options) &&
      counts.path_tokens < kSmallBatchPathTokens) {
    return PathRoute(Reason::kSmallBatch);
  }
  return std::nullopt;
}

std::optional<Route> RouteWithoutSegments(const RouteOptions& options, const PlanCounts& counts) {
  if (options.backend == Backend::kFused) {
    return Route{Backend::kFused, Layout::kNone, Reason::kRequested};
  }
  if (options.max_mask_bytes == 0) {
    return PathRoute(Reason::kMaskBudget);
  }
  if (counts.forest_tokens >= counts.path_tokens) {
    return PathRoute(Reason::kPaddingOverhead);
  }
  return std::nullopt;
}

// AUTO below kSmallBatchPathTokens never reaches this function, because RouteWithoutTrie decides
// it.
Route RouteWithSegments(const RouteOptions& options, const PlanCounts& counts) {
  const bool mask_fits = counts.mask_bytes <= options.max_mask_bytes;
  if (!mask_fits && !counts.segment_suitable) {
    return PathRoute(Reason::kMaskBudget);
  }
  if (options.backend == Backend::kSegmented) {
    return TreeRoute(Backend::kSegmented);
  }
  const bool few_groups = counts.segment_groups <= kMaxPreferredSegmentGroups &&
                          options.hidden_size >= kMinSegmentedHiddenSize;
  if (options.backend == Backend::kAuto && counts.segment_suitable && (!mask_fits || few_groups)) {
    return TreeRoute(Backend::kSegmented);
  }
  return mask_fits ? TreeRoute(Backend::kDense) : PathRoute(Reason::kMaskBudget);
}

}  // namespace canopy
