#include "core/tree/token_grid.h"

#include <algorithm>
#include <numeric>

namespace canopy {

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
