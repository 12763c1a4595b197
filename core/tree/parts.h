// Cuts a routed request into forwards that respect a token budget.
//
// Consecutive whole questions share a forward while they fit. A question that does not fit alone is
// cut into parts of its own, each with some of its paths: neighbours in the trie for a tree
// backend, paths of similar length for the path backend.
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

// One forward. It has either all paths of its questions, or some paths of one question. Its grid
// has rows x columns slots, or fewer if questions share nodes.
struct Part {
  int32_t first_question = 0;
  int32_t end_question = 0;
  int32_t first_path = 0;  // index into PartList::paths
  int32_t end_path = 0;
  bool whole_questions = true;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t nodes = 0;  // nodes of the part's tries; 0 on the path backend
};

struct PartList {
  std::vector<PathRef> paths;  // every path of the batch exactly once
  std::vector<Part> parts;
};

// Cuts the batch. No part has more than max_batch_tokens grid slots, and the index arrays of a
// segmented part stay within a fixed bound. `trie` may be null for the path backend. Precondition:
// the batch is valid and each path fits the budget alone.
PartList CutIntoParts(const PathBatch& batch, const Trie* trie, const Route& route,
                      int64_t max_batch_tokens);

// Returns the whole batch as one forward with one row of `columns` slots, in which its questions
// share nodes. Returns nullopt if the forward exceeds a bound of CutIntoParts. `trie` is the trie
// of the batch itself.
std::optional<PartList> OnePart(const PathBatch& batch, const Trie& trie, Backend backend,
                                int64_t columns, int64_t max_batch_tokens);

}  // namespace canopy

#endif  // CORE_TREE_PARTS_H_
