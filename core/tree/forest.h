// Forests: the tries of consecutive questions laid out as one token grid.
//
//   padded  [questions, longest trie]   A B C D     flat  [1, nodes]   A B C D X Y
//                                       X Y . .
#ifndef CORE_TREE_FOREST_H_
#define CORE_TREE_FOREST_H_

#include <cstdint>

#include "core/tree/route.h"
#include "core/tree/token_grid.h"
#include "core/tree/trie.h"

namespace canopy {

// The positions of the nodes of questions first_question .. end_question - 1 in a grid. This is a
// view: the trie must outlive it.
struct Forest {
  const Trie* trie = nullptr;
  Layout layout = Layout::kPadded;
  int32_t first_question = 0;
  int32_t end_question = 0;
  int32_t rows = 0;
  int32_t columns = 0;

  // Returns the number to add to a node of the question to get its flat grid slot, or its column.
  int32_t SlotShift(int32_t question) const;
  int32_t ColumnShift(int32_t question) const;
};

// The layout that the packing rule chooses for the whole trie, and its size in tokens and mask
// bytes. The rule chooses the flat layout if its mask is smaller.
struct LayoutChoice {
  Layout layout = Layout::kPadded;
  int64_t forest_tokens = 0;  // rows x columns
  int64_t mask_bytes = 0;     // rows x columns^2 x 4, at most the largest int64
};
LayoutChoice ChooseLayout(const Trie& trie, Packing packing);
// Makes the same choice from sizes alone. `largest` is the node count of the largest question's
// trie; `unique` is the node count of all tries.
LayoutChoice ChooseLayout(int64_t questions, int64_t largest, int64_t unique, Packing packing);
// Returns the flat layout of the fused backend, which needs no mask.
LayoutChoice FlatLayoutWithoutMask(const Trie& trie);

// Precondition: `layout` is kPadded or kFlat, and the grid has fewer than 2^31 slots.
Forest LayOutForest(const Trie& trie, Layout layout, int32_t first_question, int32_t end_question);

TokenGrid BuildForestGrid(const Forest& forest);

}  // namespace canopy

#endif  // CORE_TREE_FOREST_H_
