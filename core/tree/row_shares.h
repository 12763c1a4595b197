// Whose work each slot of a shared forward is.
#ifndef CORE_TREE_ROW_SHARES_H_
#define CORE_TREE_ROW_SHARES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/tree/tree_plan.h"

namespace canopy {

// The plan's paths are cut into owners: owner i has paths path_offsets[i] .. path_offsets[i + 1]
// - 1. A slot counts for the first owner with a path through it, padding for the first owner in its
// row. [owners], adding up to plan.computed_tokens(). Linear in the slots.
std::vector<int64_t> CountRowShares(const TreePlan& plan, absl::Span<const int32_t> path_offsets);

}  // namespace canopy

#endif  // CORE_TREE_ROW_SHARES_H_
