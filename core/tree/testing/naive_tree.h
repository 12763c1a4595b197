// What trees mean, written down as slowly and plainly as possible: the oracle of the tests.
#ifndef CORE_TREE_TESTING_NAIVE_TREE_H_
#define CORE_TREE_TESTING_NAIVE_TREE_H_

#include <cstdint>
#include <vector>

#include "core/tree/path_batch.h"
#include "core/tree/token_grid.h"

namespace canopy::testing {

using Path = std::vector<int32_t>;

// Prefix and suffix in one.
Path FullPath(const PathBatch& batch, int32_t question, int32_t path);
std::vector<Path> QuestionPaths(const PathBatch& batch, int32_t question);
// The question that each path belongs to.
std::vector<int32_t> PathQuestions(const PathBatch& batch);

// A trie is the set of its paths' non-empty prefixes. Depth first, children by first appearance.
std::vector<Path> NaiveTrie(const std::vector<Path>& paths);

// True when `path` begins with `prefix`.
bool BeginsWith(const Path& path, const Path& prefix);

// The slots of the same row that a slot may read by the rule j <= i <= exit[j], ascending, as flat
// grid slots.
std::vector<int32_t> VisibleSlots(const TokenGrid& forest, int32_t slot);

// What a chain computes, by the definition: (start depth, chain length) of each.
struct NaiveChain {
  int32_t start_depth = 0;
  int32_t size = 0;
};
std::vector<NaiveChain> NaiveChains(const std::vector<Path>& trie);

}  // namespace canopy::testing

#endif  // CORE_TREE_TESTING_NAIVE_TREE_H_
