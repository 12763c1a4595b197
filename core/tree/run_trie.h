// The tries of a batch while they grow: runs of tokens instead of single nodes, so that a path
// costs about one comparison with the path before it.
//
// A run ends where paths branch or end. Each question has one root run: its prefix, maybe empty.
//
//   prefix A B, suffixes C D | C E F | C      run 0  A B       children 1
//                                             run 1  C         children 2 3, path 2 ends here
//                                             run 2  D         path 0
//                                             run 3  E F       path 1
#ifndef CORE_TREE_RUN_TRIE_H_
#define CORE_TREE_RUN_TRIE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "core/tree/path_batch.h"

namespace canopy {

// Stands for "no run", "no path", "no table".
inline constexpr int32_t kNone = -1;

struct Run {
  int64_t begin = 0;            // of its tokens, in PathBatch::tokens
  int32_t size = 0;             // tokens; 0 only at a root
  int32_t end = 0;              // position in the suffixes after its last token; 0 at a root
  int32_t token = 0;            // its first one, unless it is a root
  int32_t first_child = kNone;  // children in the order in which paths first reached them
  int32_t last_child = kNone;
  int32_t next_sibling = kNone;
  int32_t num_children = 0;
  int32_t child_table = kNone;  // of many children: the table that finds one by its first token
  int32_t last_path = kNone;    // the last path that ends with this run, see next_path()
};

// Built at once from a valid batch, which must outlive it; read-only afterwards.
class RunTrie {
 public:
  explicit RunTrie(const PathBatch& batch);

  const Run& run(int32_t index) const { return runs_[index]; }
  int32_t root(int32_t question) const { return roots_[question]; }
  // The runs of `question` are root(question) .. end_run(question) - 1.
  int32_t end_run(int32_t question) const {
    return static_cast<size_t>(question) + 1 < roots_.size() ? roots_[question + 1]
                                                             : static_cast<int32_t>(runs_.size());
  }
  // The next path that ends with the same run, or kNone.
  int32_t next_path(int32_t path) const { return next_path_[path]; }
  // Tokens of all runs: the nodes that the tries will have.
  int64_t num_nodes() const;

 private:
  struct Child {
    int32_t index = kNone;
    bool added = false;
  };

  void AddQuestion(int32_t question);
  void AddPath(int32_t path, int32_t shared_tokens);
  // Cuts the run in two so that it ends before suffix position `position`, which lies inside it.
  void Split(int32_t index, int32_t position);
  // The child of `parent` whose first token the path has at suffix position `position`. A new one
  // holds the rest of the path.
  Child FindOrAddChild(int32_t parent, int32_t path, int32_t position);
  void AppendChild(int32_t parent, int32_t child);
  void IndexChildren(int32_t parent);

  const PathBatch& batch_;
  std::vector<Run> runs_;
  std::vector<int32_t> roots_;                       // [questions]
  std::vector<int32_t> next_path_;                   // [paths]
  std::vector<int32_t> open_;                        // runs of the path added last, root first
  absl::flat_hash_map<uint64_t, int32_t> children_;  // table and first token -> run
  int32_t num_tables_ = 0;
};

}  // namespace canopy

#endif  // CORE_TREE_RUN_TRIE_H_
