// Divides the slots of a shared forward among the requests that use it.
#ifndef CORE_TREE_ROW_SHARES_H_
#define CORE_TREE_ROW_SHARES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/tree/tree_plan.h"

namespace canopy {

// Returns [owners], the number of slots of each owner. The sum is plan.computed_tokens(). Owner i
// has the plan's paths path_offsets[i] .. path_offsets[i + 1] - 1. A slot counts for the first
// owner with a path through it; padding counts for the first owner in its row. Linear in the slots.
std::vector<int64_t> CountRowShares(const TreePlan& plan, absl::Span<const int32_t> path_offsets);

}  // namespace canopy

#endif  // CORE_TREE_ROW_SHARES_H_
