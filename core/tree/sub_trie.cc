#include "core/tree/sub_trie.h"

#include <utility>
#include <vector>

namespace canopy {
namespace {

constexpr int32_t kNoNode = -1;

// Appends nodes in depth-first order and sets the exit of each node whose subtree is complete.
class SubTrieBuilder {
 public:
  explicit SubTrieBuilder(const Trie& whole) : whole_(whole) {}

  void AddPath(int32_t endpoint) {
    // Endpoints ascend, so a path shares with all earlier paths only what it shares with the last
    // one.
    added_.clear();
    for (int32_t node = endpoint;
         node != kNoNode && !(last_ != kNoNode && IsAncestorOrSelf(whole_, node, last_));
         node = whole_.parent[node]) {
      added_.push_back(node);
    }
    for (auto node = added_.rbegin(); node != added_.rend(); ++node) {
      AddNode(*node);
    }
    last_ = endpoint;
    part_.path_endpoint.push_back(part_.num_nodes() - 1);
  }

  Trie Build() && {
    CloseFrom(0);
    part_.question_node_offsets = {0, part_.num_nodes()};
    return std::move(part_);
  }

 private:
  void AddNode(int32_t node) {
    const int32_t depth = whole_.depth[node];
    CloseFrom(depth);
    part_.parent.push_back(open_.empty() ? kNoNode : open_.back());
    open_.push_back(part_.num_nodes());
    part_.token.push_back(whole_.token[node]);
    part_.depth.push_back(depth);
    part_.exit.push_back(kNoNode);
  }

  void CloseFrom(int32_t depth) {
    while (static_cast<int32_t>(open_.size()) > depth) {
      part_.exit[open_.back()] = part_.num_nodes() - 1;
      open_.pop_back();
    }
  }

  const Trie& whole_;
  Trie part_;
  int32_t last_ = kNoNode;      // endpoint added last, as a node of the whole trie
  std::vector<int32_t> added_;  // nodes that the current path adds, deepest first
  std::vector<int32_t> open_;   // nodes of the part whose subtree may still grow, one per depth
};

}  // namespace

Trie SelectPaths(const Trie& trie, absl::Span<const int32_t> endpoints) {
  SubTrieBuilder builder(trie);
  for (const int32_t endpoint : endpoints) {
    builder.AddPath(endpoint);
  }
  return std::move(builder).Build();
}

}  // namespace canopy
