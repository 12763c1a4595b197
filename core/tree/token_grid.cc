#include "core/tree/token_grid.h"

#include <algorithm>
#include <numeric>

namespace canopy {

std::vector<int32_t> ParentSlots(const TokenGrid& grid) {
  std::vector<int32_t> parents(grid.token_ids.size());
  std::vector<int32_t> ancestors;
  for (int32_t row = 0; row < grid.rows; ++row) {
    const int32_t base = row * grid.columns;
    ancestors.clear();
    for (int32_t column = 0; column < grid.columns; ++column) {
      // On the path backend every slot's parent is the slot before it.
      while (!grid.exit.empty() && !ancestors.empty() &&
             grid.exit[base + ancestors.back()] < column) {
        ancestors.pop_back();
      }
      parents[base + column] = ancestors.empty() ? -1 : base + ancestors.back();
      ancestors.push_back(column);
    }
  }
  return parents;
}

TokenGrid BuildPathGrid(const PathBatch& batch, absl::Span<const PathRef> paths) {
  TokenGrid grid;
  grid.rows = static_cast<int32_t>(paths.size());
  for (const PathRef& ref : paths) {
    const auto length = static_cast<int32_t>(batch.PathLength(ref.question, ref.path));
    grid.columns = std::max(grid.columns, length);
  }
  const size_t slots = paths.size() * grid.columns;
  grid.token_ids.resize(slots);
  grid.position_ids.resize(slots);
  size_t row_begin = 0;
  for (const PathRef& ref : paths) {
    const absl::Span<const int32_t> prefix = batch.Tokens(batch.prefixes[ref.question]);
    const absl::Span<const int32_t> suffix = batch.Tokens(batch.suffixes[ref.path]);
    const auto tokens = grid.token_ids.begin() + row_begin;
    std::copy(suffix.begin(), suffix.end(), std::copy(prefix.begin(), prefix.end(), tokens));
    const auto positions = grid.position_ids.begin() + row_begin;
    std::iota(positions, positions + prefix.size() + suffix.size(), 0);
    row_begin += grid.columns;
  }
  return grid;
}

}  // namespace canopy
