// The grid of rows x columns tokens that a forward runs over, for every backend and layout:
//   path     one row per path, causal, right padded
//   padded   one row per question, its trie in depth-first order, right padded
//   flat     one row, all tries in sequence
// In a row of a forest, slot i reads slot j exactly when j <= i <= exit[j]; a padding slot is its
// own exit.
//
//   paths  A B C | A B D | A E      slot   0 1 2 3 4
//                                   token  A B C D E
//                                   depth  0 1 2 2 1   (= position id)
//                                   exit   4 3 2 3 4
#ifndef CORE_TREE_TOKEN_GRID_H_
#define CORE_TREE_TOKEN_GRID_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/tree/path_batch.h"

namespace canopy {

// Thread-compatible value. Host, row-major.
struct TokenGrid {
  int32_t rows = 0;
  int32_t columns = 0;
  std::vector<int32_t> token_ids;     // [rows, columns]; padding is 0
  std::vector<int32_t> position_ids;  // [rows, columns]; padding is 0
  std::vector<int32_t> exit;  // [rows, columns], column in the same row; empty on the path backend
};

// A path of a batch, and its question.
struct PathRef {
  int32_t question = 0;
  int32_t path = 0;
};

// Returns each slot's parent slot, or -1 for a root. Values for padding slots are unspecified.
// Linear in the number of slots.
std::vector<int32_t> ParentSlots(const TokenGrid& grid);

// Builds one row per path, as long as the longest of `paths`. Precondition: the grid has fewer than
// 2^31 slots.
TokenGrid BuildPathGrid(const PathBatch& batch, absl::Span<const PathRef> paths);

}  // namespace canopy

#endif  // CORE_TREE_TOKEN_GRID_H_
