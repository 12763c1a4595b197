// Cuts a routed request into forwards that respect a token budget.
//
// Whole questions go together while they fit, in order. A question that alone does not fit gets
// parts of its own, each with some of its paths: neighbours in the trie for a tree backend, paths
// of like length for the path backend.
#ifndef CORE_TREE_PARTS_H_
#define CORE_TREE_PARTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "core/tree/path_batch.h"
#include "core/tree/route.h"
#include "core/tree/token_grid.h"
#include "core/tree/trie.h"

namespace canopy {

// One forward. Either all paths of its questions, or some paths of its one question. Its grid has
// rows x columns slots, or fewer where questions share nodes.
struct Part {
  int32_t first_question = 0;
  int32_t end_question = 0;
  int32_t first_path = 0;  // into PartList::paths
  int32_t end_path = 0;
  bool whole_questions = true;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t nodes = 0;  // of the tries; 0 on the path backend
};

struct PartList {
  std::vector<PathRef> paths;  // every path of the batch once
  std::vector<Part> parts;
};

// `trie` may be null for the path backend. No part has more than max_batch_tokens grid slots, and
// the index arrays of a segmented part stay within a fixed bound. Wants a valid batch whose paths
// all fit the budget alone.
PartList CutIntoParts(const PathBatch& batch, const Trie* trie, const Route& route,
                      int64_t max_batch_tokens);

// The whole batch as one forward over one row of `columns` slots, in which its questions share
// nodes. Nothing where that breaks one of the bounds above. `trie` is the batch's own.
std::optional<PartList> OnePart(const PathBatch& batch, const Trie& trie, Backend backend,
                                int64_t columns, int64_t max_batch_tokens);

}  // namespace canopy

#endif  // CORE_TREE_PARTS_H_
