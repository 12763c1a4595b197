// The tries of a batch, one per question, as flat arrays in depth-first order.
//
// A node is identified by its parent and its token, so identical paths share every node and a path
// may end inside another. A question may have several roots. Children keep the order in which the
// paths first reach them.
#ifndef CORE_TREE_TRIE_H_
#define CORE_TREE_TRIE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tree/path_batch.h"

namespace canopy {

// Thread-compatible value. Node indices are global to the batch: question q owns nodes
// question_node_offsets[q] .. question_node_offsets[q + 1] - 1.
struct Trie {
  std::vector<int32_t> token;                  // [nodes]
  std::vector<int32_t> depth;                  // [nodes], 0 at a root; equals the position id
  std::vector<int32_t> exit;                   // [nodes], last node of its subtree
  std::vector<int32_t> parent;                 // [nodes], -1 at a root
  std::vector<int32_t> question_node_offsets;  // [questions + 1]
  std::vector<int32_t> path_endpoint;          // [paths], node of the path's last token

  int32_t num_nodes() const { return static_cast<int32_t>(token.size()); }
  int32_t num_questions() const { return static_cast<int32_t>(question_node_offsets.size()) - 1; }
};

// Builds the tries of a valid batch in time linear in its tokens as sent, for any order of paths.
// Returns INVALID_ARGUMENT if there would be more than 2^31 - 1 nodes.
absl::StatusOr<Trie> BuildTrie(const PathBatch& batch);

}  // namespace canopy

#endif  // CORE_TREE_TRIE_H_
