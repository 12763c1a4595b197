#include "client/tree_check.h"

#include <cstdint>
#include <vector>

#include "client/mismatch.h"
#include "client/token_ids.h"

namespace canopy::client {
namespace {

uint64_t EndDepth(const v1::TreeNode& node) {
  return node.start_depth() + static_cast<uint64_t>(node.tokens_size());
}

// Checks that a node starts where its parent ends. `open` contains the nodes from a root to the
// previous node; in depth-first order a parent is always among them.
absl::Status CheckNode(const v1::QuestionTree& tree, int index, std::vector<int>* open) {
  const v1::TreeNode& node = tree.nodes(index);
  while (!open->empty() && open->back() != node.parent()) {
    open->pop_back();
  }
  if (open->empty() && node.parent() != -1) {
    return Mismatch(".parent: ", node.parent(), " is not depth first");
  }
  open->push_back(index);
  if (node.tokens().empty()) {
    return Mismatch(".tokens is empty");
  }
  const uint64_t start = node.parent() == -1 ? 0 : EndDepth(tree.nodes(node.parent()));
  return CheckCount(".start_depth", node.start_depth(), start);
}

// Returns whether the tokens on the way from the root to node `index` are the candidate's path.
bool SpellsPath(const v1::QuestionTree& tree, int index, const v1::Question& question,
                const v1::Candidate& candidate) {
  uint64_t end = NumPathTokens(question, candidate);
  if (EndDepth(tree.nodes(index)) != end) {
    return false;
  }
  for (; index != -1; index = tree.nodes(index).parent()) {
    const v1::TreeNode& node = tree.nodes(index);
    for (int i = node.tokens_size() - 1; i >= 0; --i) {
      if (node.tokens(i) != PathTokenAt(question, candidate, --end)) {
        return false;
      }
    }
  }
  return true;
}

// Marks the candidates that end at the node.
absl::Status CheckEndpoints(const v1::Question& question, const v1::QuestionTree& tree, int index,
                            std::vector<bool>* ended) {
  for (const uint32_t candidate : tree.nodes(index).candidates()) {
    if (candidate >= ended->size() || (*ended)[candidate]) {
      return Mismatch(".candidates: ", candidate, " is unknown or ends twice");
    }
    (*ended)[candidate] = true;
    if (!SpellsPath(tree, index, question, question.candidates(static_cast<int>(candidate)))) {
      return Mismatch(".candidates: ", candidate, " has another path");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTree(const v1::Question& question, const v1::QuestionTree& tree) {
  if (tree.id() != question.id()) {
    return Mismatch(".id is not the question's");
  }
  std::vector<bool> ended(question.candidates_size());
  std::vector<bool> needed(tree.nodes_size());
  std::vector<int> open;
  for (int i = 0; i < tree.nodes_size(); ++i) {
    const v1::TreeNode& node = tree.nodes(i);
    absl::Status status = CheckNode(tree, i, &open);
    if (status.ok()) {
      status = CheckEndpoints(question, tree, i, &ended);
    }
    if (!status.ok()) {
      return At(".nodes", i, status);
    }
    needed[i] = needed[i] || !node.candidates().empty();
    if (node.parent() != -1) {
      needed[node.parent()] = true;
    }
  }
  for (int i = 0; i < tree.nodes_size(); ++i) {
    if (!needed[i]) {
      return At(".nodes", i, Mismatch(" ends no candidate"));
    }
  }
  for (size_t i = 0; i < ended.size(); ++i) {
    if (!ended[i]) {
      return At(".candidates", static_cast<int>(i), Mismatch(" ends at no node"));
    }
  }
  return absl::OkStatus();
}

}  // namespace canopy::client
