#include "client/path_tree.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "client/token_ids.h"

namespace canopy::client {
namespace {

// One token of the trie.
struct Node {
  uint32_t token = 0;
  std::vector<int> children;
  std::vector<int> candidates;  // the candidates that end here
};

// Inserts all paths. Node 0 is the common root of all paths.
std::vector<Node> InsertPaths(const v1::Question& question) {
  std::vector<Node> nodes(1);
  absl::flat_hash_map<std::pair<int, uint32_t>, int> children;
  for (int c = 0; c < question.candidates_size(); ++c) {
    const v1::Candidate& candidate = question.candidates(c);
    int node = 0;
    const uint64_t num_tokens = NumPathTokens(question, candidate);
    for (uint64_t i = 0; i < num_tokens; ++i) {
      const uint32_t token = PathTokenAt(question, candidate, i);
      const auto [child, is_new] =
          children.try_emplace({node, token}, static_cast<int>(nodes.size()));
      if (is_new) {
        nodes[node].children.push_back(child->second);
        nodes.push_back({token, {}, {}});
      }
      node = child->second;
    }
    nodes[node].candidates.push_back(c);
  }
  return nodes;
}

}  // namespace

v1::QuestionTree BuildPathTree(const v1::Question& question) {
  struct Start {
    int node;
    int parent;  // the parent run
    uint64_t depth;
  };
  const std::vector<Node> nodes = InsertPaths(question);
  v1::QuestionTree tree;
  tree.set_id(question.id());
  std::vector<Start> starts;
  const auto push_children = [&](int node, int parent, uint64_t depth) {
    const std::vector<int>& children = nodes[node].children;
    for (auto child = children.rbegin(); child != children.rend(); ++child) {
      starts.push_back({*child, parent, depth});
    }
  };
  push_children(0, -1, 0);
  while (!starts.empty()) {
    const Start start = starts.back();
    starts.pop_back();
    v1::TreeNode* run = tree.add_nodes();
    run->set_parent(start.parent);
    run->set_start_depth(start.depth);
    int node = start.node;
    run->add_tokens(nodes[node].token);
    while (nodes[node].candidates.empty() && nodes[node].children.size() == 1) {
      node = nodes[node].children[0];
      run->add_tokens(nodes[node].token);
    }
    run->mutable_candidates()->Add(nodes[node].candidates.begin(), nodes[node].candidates.end());
    push_children(node, tree.nodes_size() - 1, start.depth + run->tokens_size());
  }
  return tree;
}

}  // namespace canopy::client
