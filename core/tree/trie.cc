#include "core/tree/trie.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/tree/run_trie.h"

namespace canopy {
namespace {

// Writes the runs of one question after another as nodes, in depth-first order.
class TrieWriter {
 public:
  TrieWriter(const PathBatch& batch, const RunTrie& runs) : batch_(batch), runs_(runs) {
    const auto num_nodes = static_cast<size_t>(runs.num_nodes());
    trie_.token.resize(num_nodes);
    trie_.depth.resize(num_nodes);
    trie_.exit.resize(num_nodes);
    trie_.parent.resize(num_nodes);
    trie_.path_endpoint.resize(batch.num_paths());
    trie_.question_node_offsets.reserve(batch.num_questions() + 1);
  }

  Trie Write() && {
    for (int32_t question = 0; question < batch_.num_questions(); ++question) {
      trie_.question_node_offsets.push_back(num_written_);
      WriteQuestion(runs_.root(question));
    }
    trie_.question_node_offsets.push_back(num_written_);
    return std::move(trie_);
  }

 private:
  // A run whose nodes are written and whose subtree is not yet complete.
  struct OpenRun {
    int32_t run;
    int32_t first_node;
    int32_t last_node;  // kNone for an empty root, whose children are the roots of the trie
  };

  void WriteQuestion(int32_t root) {
    int32_t next = root;
    while (true) {
      if (next != kNone) {
        Open(next);
        next = runs_.run(next).first_child;
        continue;
      }
      const OpenRun closed = open_.back();
      open_.pop_back();
      std::fill(trie_.exit.begin() + closed.first_node,
                trie_.exit.begin() + std::max(closed.first_node, closed.last_node + 1),
                num_written_ - 1);
      if (open_.empty()) {
        return;
      }
      next = runs_.run(closed.run).next_sibling;
    }
  }

  void Open(int32_t index) {
    const Run& run = runs_.run(index);
    const int32_t parent = open_.empty() ? kNone : open_.back().last_node;
    const int32_t first = num_written_;
    num_written_ += run.size;
    open_.push_back({index, first, run.size == 0 ? kNone : num_written_ - 1});
    if (run.size == 0) {
      return;
    }
    std::copy_n(batch_.tokens.begin() + run.begin, run.size, trie_.token.begin() + first);
    std::iota(trie_.depth.begin() + first, trie_.depth.begin() + num_written_,
              parent == kNone ? 0 : trie_.depth[parent] + 1);
    trie_.parent[first] = parent;
    std::iota(trie_.parent.begin() + first + 1, trie_.parent.begin() + num_written_, first);
    for (int32_t path = run.last_path; path != kNone; path = runs_.next_path(path)) {
      trie_.path_endpoint[path] = num_written_ - 1;
    }
  }

  const PathBatch& batch_;
  const RunTrie& runs_;
  Trie trie_;
  int32_t num_written_ = 0;
  std::vector<OpenRun> open_;  // from the root to the current run
};

}  // namespace

absl::StatusOr<Trie> BuildTrie(const PathBatch& batch) {
  const RunTrie runs(batch);
  constexpr int64_t kMaxNodes = std::numeric_limits<int32_t>::max();
  if (runs.num_nodes() > kMaxNodes) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch of ", runs.num_nodes(), " trie nodes exceeds ", kMaxNodes));
  }
  return TrieWriter(batch, runs).Write();
}

}  // namespace canopy
