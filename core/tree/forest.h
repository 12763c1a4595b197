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

// Where the nodes of questions first_question .. end_question - 1 stand in a grid. A view: the trie
// must outlive it.
struct Forest {
  const Trie* trie = nullptr;
  Layout layout = Layout::kPadded;
  int32_t first_question = 0;
  int32_t end_question = 0;
  int32_t rows = 0;
  int32_t columns = 0;

  // What to add to a node of the question for its flat grid slot, and for its column.
  int32_t SlotShift(int32_t question) const;
  int32_t ColumnShift(int32_t question) const;
};

// The layout that the packing rule gives the whole trie, with the tokens and mask bytes it takes.
// Flat is taken where it makes the smaller mask.
struct LayoutChoice {
  Layout layout = Layout::kPadded;
  int64_t forest_tokens = 0;  // rows x columns
  int64_t mask_bytes = 0;     // rows x columns^2 x 4, at most the largest int64
};
LayoutChoice ChooseLayout(const Trie& trie, Packing packing);
// The same choice from sizes alone. `largest` is the node count of the largest question's trie and
// `unique` that of all tries.
LayoutChoice ChooseLayout(int64_t questions, int64_t largest, int64_t unique, Packing packing);
// The flat layout of the fused backend, which has no mask.
LayoutChoice FlatLayoutWithoutMask(const Trie& trie);

// `layout` is kPadded or kFlat; the grid must have fewer than 2^31 slots.
Forest LayOutForest(const Trie& trie, Layout layout, int32_t first_question, int32_t end_question);

TokenGrid BuildForestGrid(const Forest& forest);

}  // namespace canopy

#endif  // CORE_TREE_FOREST_H_
