// The tries of a batch during construction. They consist of runs of tokens instead of single nodes,
// so that adding a path costs about one comparison with the path before it.
//
// A run ends where paths branch or end. Each question has one root run: its prefix, which may be
// empty.
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

// Means "no run", "no path" or "no table".
inline constexpr int32_t kNone = -1;

struct Run {
  int64_t begin = 0;            // position of its tokens in PathBatch::tokens
  int32_t size = 0;             // number of tokens; 0 only at a root
  int32_t end = 0;              // position in the suffixes after its last token; 0 at a root
  int32_t token = 0;            // its first token; unset for a root
  int32_t first_child = kNone;  // children in the order in which paths first reached them
  int32_t last_child = kNone;
  int32_t next_sibling = kNone;
  int32_t num_children = 0;
  // id of the hash table that finds a child by its first token; kNone = list
  int32_t child_table = kNone;
  int32_t last_path = kNone;  // the last path that ends with this run, see next_path()
};

// The constructor builds the tries from a valid batch, which must outlive them; read-only
// afterwards.
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
  // Returns the next path that ends with the same run, or kNone.
  int32_t next_path(int32_t path) const { return next_path_[path]; }
  // Returns the number of tokens of all runs, which is the number of nodes that the tries will
  // have.
  int64_t num_nodes() const;

 private:
  struct Child {
    int32_t index = kNone;
    bool added = false;
  };

  void AddQuestion(int32_t question);
  void AddPath(int32_t path, int32_t shared_tokens);
  // Cuts the run in two at suffix position `position`, which lies inside it.
  void Split(int32_t index, int32_t position);
  // Returns the child of `parent` whose first token equals the path's token at suffix position
  // `position`. Adds a child with the rest of the path if there is none.
  Child FindOrAddChild(int32_t parent, int32_t path, int32_t position);
  void AppendChild(int32_t parent, int32_t child);
  void IndexChildren(int32_t parent);

  const PathBatch& batch_;
  std::vector<Run> runs_;
  std::vector<int32_t> roots_;      // [questions]
  std::vector<int32_t> next_path_;  // [paths]
  std::vector<int32_t> open_;       // runs of the path that was added last, root first
  absl::flat_hash_map<uint64_t, int32_t> children_;  // (table, first token) -> run
  int32_t num_tables_ = 0;
};

}  // namespace canopy

#endif  // CORE_TREE_RUN_TRIE_H_
