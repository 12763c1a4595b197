#include "core/tree/row_shares.h"

#include "core/tree/token_grid.h"

namespace canopy {
namespace {

constexpr int32_t kNoSlot = -1;

}  // namespace

std::vector<int64_t> CountRowShares(const TreePlan& plan, absl::Span<const int32_t> path_offsets) {
  const std::vector<int32_t> parents = ParentSlots(plan.grid);
  std::vector<int64_t> shares(path_offsets.size() - 1, 0);
  std::vector<uint8_t> owned(parents.size(), 0);
  std::vector<int64_t> row_unowned(static_cast<size_t>(plan.grid.rows), plan.grid.columns);
  std::vector<int32_t> row_owner(row_unowned.size(), kNoSlot);
  for (size_t owner = 0; owner < shares.size(); ++owner) {
    for (int32_t path = path_offsets[owner]; path < path_offsets[owner + 1]; ++path) {
      const int32_t row = plan.endpoints[path] / plan.grid.columns;
      if (row_owner[row] == kNoSlot) {
        row_owner[row] = static_cast<int32_t>(owner);
      }
      // If a slot has an owner, all its ancestors have one too.
      for (int32_t slot = plan.endpoints[path]; slot != kNoSlot && owned[slot] == 0;
           slot = parents[slot]) {
        owned[slot] = 1;
        ++shares[owner];
        --row_unowned[row];
      }
    }
  }
  for (size_t row = 0; row < row_owner.size(); ++row) {
    if (row_owner[row] != kNoSlot) {
      shares[row_owner[row]] += row_unowned[row];
    }
  }
  return shares;
}

}  // namespace canopy
