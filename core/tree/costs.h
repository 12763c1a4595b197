// Counts how much a batch would compute, before any grid is built.
#ifndef CORE_TREE_COSTS_H_
#define CORE_TREE_COSTS_H_

#include "core/tree/forest.h"
#include "core/tree/path_batch.h"
#include "core/tree/route.h"
#include "core/tree/trie.h"

namespace canopy {

// Returns the counts of a valid batch with only path_tokens and input_tokens set. Counts that do
// not fit in int64 are clamped to its maximum.
PlanCounts CountPaths(const PathBatch& batch);

// Sets the counts that follow from a trie and its layout: unique, forest and mask sizes and pairs.
void CountForest(const Trie& trie, const LayoutChoice& choice, PlanCounts& counts);

// Sets the counts that follow from the trie's segments. Precondition: counts.path_tokens is set.
void CountSegments(const Trie& trie, PlanCounts& counts);

}  // namespace canopy

#endif  // CORE_TREE_COSTS_H_
