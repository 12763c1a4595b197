// Counts what a batch would compute, before anything is laid out.
#ifndef CORE_TREE_COSTS_H_
#define CORE_TREE_COSTS_H_

#include "core/tree/forest.h"
#include "core/tree/path_batch.h"
#include "core/tree/route.h"
#include "core/tree/trie.h"

namespace canopy {

// path_tokens and input_tokens of a valid batch; the rest is zero. Counts that do not fit int64
// stop at the largest.
PlanCounts CountPaths(const PathBatch& batch);

// Sets the counts that a trie and its layout give.
void CountForest(const Trie& trie, const LayoutChoice& choice, PlanCounts& counts);

// Sets the counts that segments give; wants path_tokens.
void CountSegments(const Trie& trie, PlanCounts& counts);

}  // namespace canopy

#endif  // CORE_TREE_COSTS_H_
