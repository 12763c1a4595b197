// The reference policy: which backend runs a batch, from its counts alone. Pure functions, in the
// order in which the counts become known, so that nothing is built that the rules can do without.
// The measured policy differs in what AUTO gives (core/tree/measured_route.h).
#ifndef CORE_TREE_ROUTER_H_
#define CORE_TREE_ROUTER_H_

#include <optional>

#include "absl/status/status.h"
#include "core/tree/route.h"

namespace canopy {

// INVALID_ARGUMENT for a negative mask budget or an unknown backend or packing;
// FAILED_PRECONDITION for Backend::kFused where it does not run, a tree backend asked for on
// unsupported layers, or the measured policy without costs.
absl::Status ValidateRouteOptions(const RouteOptions& options);

// Whether forecast costs, not these rules, choose among the backends that need a trie.
bool IsRoutedByCost(const RouteOptions& options);

// The functions below want valid options, and leave Route::layout to the caller.

// Needs path_tokens only. Nothing when a trie must be built.
std::optional<Route> RouteWithoutTrie(const RouteOptions& options, const PlanCounts& counts);

// Needs the trie's counts. Nothing when its segments must be counted.
std::optional<Route> RouteWithoutSegments(const RouteOptions& options, const PlanCounts& counts);

// Needs all counts.
Route RouteWithSegments(const RouteOptions& options, const PlanCounts& counts);

// At most this many groups of chains are worth one attention call each ...
inline constexpr int64_t kMaxSuitableSegmentGroups = 4;
// ... and AUTO prefers them to a mask that fits up to here, for models at least this wide.
inline constexpr int64_t kMaxPreferredSegmentGroups = 2;
inline constexpr int32_t kMinSegmentedHiddenSize = 128;

}  // namespace canopy

#endif  // CORE_TREE_ROUTER_H_
