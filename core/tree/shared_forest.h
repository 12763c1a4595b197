// One flat forest of several questions: those whose tries begin alike share those nodes.
//
// A vector depends only on its own path, so answers stay as they are. A question's stem is its
// chain from the root down to where it branches for the first time. Questions are laid out in the
// order of their stems' tokens, whatever order they came in, so that each stands next to the one it
// shares most with.
//
//   question 0  S T a, S T b       grid   S T a b U c d
//   question 1  S U c, S U d       exit   6 3 2 3 6 5 6
#ifndef CORE_TREE_SHARED_FOREST_H_
#define CORE_TREE_SHARED_FOREST_H_

#include <cstdint>
#include <vector>

#include "core/tree/token_grid.h"
#include "core/tree/trie.h"

namespace canopy {

struct SharedForest {
  TokenGrid grid;                  // one row
  std::vector<int32_t> node_slot;  // [nodes of the questions] in trie order
};

// Of questions first_question .. end_question - 1; the first of those that are alike comes first.
// Linear in their nodes, but for sorting the stems.
SharedForest BuildSharedForest(const Trie& trie, int32_t first_question, int32_t end_question);

// The forest of all questions of `trie` as the trie of one question: slots are its nodes, and the
// paths are those of `trie`. Two children of a node may have the same token.
Trie AsTrie(const SharedForest& forest, const Trie& trie);

}  // namespace canopy

#endif  // CORE_TREE_SHARED_FOREST_H_
