// A flat forest of several questions, in which questions that begin with the same tokens share
// nodes.
//
// A vector depends only on its own path, so sharing does not change answers. A question's stem is
// its chain from the root to its first branch. Questions are sorted by the tokens of their stems,
// so that each is next to the question it shares the most tokens with.
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

// Builds the forest of questions first_question .. end_question - 1. Questions with equal stems
// keep their order. Linear in the number of nodes, except for sorting the stems.
SharedForest BuildSharedForest(const Trie& trie, int32_t first_question, int32_t end_question);

// Returns the forest of all questions of `trie` as the trie of one question. Its nodes are the
// slots of the forest and its paths are those of `trie`. Two children of a node may have the same
// token.
Trie AsTrie(const SharedForest& forest, const Trie& trie);

}  // namespace canopy

#endif  // CORE_TREE_SHARED_FOREST_H_
