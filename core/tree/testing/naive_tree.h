// A slow and simple definition of tries, grids and chains, which the tests compare against.
#ifndef CORE_TREE_TESTING_NAIVE_TREE_H_
#define CORE_TREE_TESTING_NAIVE_TREE_H_

#include <cstdint>
#include <vector>

#include "core/tree/path_batch.h"
#include "core/tree/token_grid.h"

namespace canopy::testing {

using Path = std::vector<int32_t>;

// Returns the prefix followed by the suffix.
Path FullPath(const PathBatch& batch, int32_t question, int32_t path);
std::vector<Path> QuestionPaths(const PathBatch& batch, int32_t question);
// Returns the question of each path.
std::vector<int32_t> PathQuestions(const PathBatch& batch);

// Returns the nodes of a trie as the set of its paths' non-empty prefixes, depth first, with
// children in the order of first appearance.
std::vector<Path> NaiveTrie(const std::vector<Path>& paths);

// Returns true if `path` begins with `prefix`.
bool BeginsWith(const Path& path, const Path& prefix);

// Returns the slots of the same row that `slot` reads by the rule j <= i <= exit[j], as ascending
// flat grid slots.
std::vector<int32_t> VisibleSlots(const TokenGrid& forest, int32_t slot);

// The start depth and the number of nodes of a chain, computed from the definition.
struct NaiveChain {
  int32_t start_depth = 0;
  int32_t size = 0;
};
std::vector<NaiveChain> NaiveChains(const std::vector<Path>& trie);

}  // namespace canopy::testing

#endif  // CORE_TREE_TESTING_NAIVE_TREE_H_
