// The reference policy, which chooses the backend of a batch from its counts alone. It consists of
// pure functions, to be called in the order in which the counts become known, so that a planner
// builds only what the rules need. The measured policy replaces the choice for AUTO
// (core/tree/measured_route.h).
#ifndef CORE_TREE_ROUTER_H_
#define CORE_TREE_ROUTER_H_

#include <optional>

#include "absl/status/status.h"
#include "core/tree/route.h"

namespace canopy {

// Returns INVALID_ARGUMENT for a negative mask budget or an unknown backend or packing. Returns
// FAILED_PRECONDITION for an unsupported Backend::kFused, for a named tree backend on unsupported
// layers, and for the measured policy without costs.
absl::Status ValidateRouteOptions(const RouteOptions& options);

// Returns true if forecast costs, not these rules, choose among the backends that need a trie.
bool IsRoutedByCost(const RouteOptions& options);

// The functions below require valid options and do not set Route::layout.

// Needs path_tokens only. Returns nullopt if a trie must be built to decide.
std::optional<Route> RouteWithoutTrie(const RouteOptions& options, const PlanCounts& counts);

// Needs the trie's counts. Returns nullopt if segments must be counted to decide.
std::optional<Route> RouteWithoutSegments(const RouteOptions& options, const PlanCounts& counts);

// Needs all counts.
Route RouteWithSegments(const RouteOptions& options, const PlanCounts& counts);

// Segmented attention is suitable for at most this many groups of chains, one attention call each.
inline constexpr int64_t kMaxSuitableSegmentGroups = 4;
// AUTO prefers segmented to a mask that fits the budget for at most this many groups, if the model
// is at least this wide.
inline constexpr int64_t kMaxPreferredSegmentGroups = 2;
inline constexpr int32_t kMinSegmentedHiddenSize = 128;

}  // namespace canopy

#endif  // CORE_TREE_ROUTER_H_
