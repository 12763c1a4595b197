#include "core/tree/shared_forest.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace canopy {
namespace {

// Returns how many nodes of one question (first_node .. end_node - 1) have no sibling, counted from
// the root.
int32_t StemLength(const Trie& trie, int32_t first_node, int32_t end_node) {
  int32_t node = first_node;
  while (node < end_node && trie.exit[node] == end_node - 1) {
    ++node;
  }
  return node - first_node;
}

// The nodes of one question, and the length of its stem.
struct QuestionNodes {
  int32_t first_node = 0;
  int32_t end_node = 0;
  int32_t stem = 0;
};

class SharedForestBuilder {
 public:
  SharedForestBuilder(const Trie& trie, int32_t first_node, int32_t end_node)
      : trie_(trie), first_node_(first_node) {
    forest_.node_slot.resize(static_cast<size_t>(end_node - first_node));
  }

  void AddQuestion(const QuestionNodes& question) {
    const auto [first_node, end_node, stem] = question;
    const int32_t shared = SharedLength(first_node, stem);
    const auto first_slot = static_cast<int32_t>(forest_.grid.token_ids.size());
    Append(first_node + shared, end_node, first_slot);

    stem_slots_.resize(static_cast<size_t>(shared));
    const auto slots = forest_.node_slot.begin() + (first_node - first_node_);
    std::copy(stem_slots_.begin(), stem_slots_.end(), slots);
    std::iota(slots + shared, slots + (end_node - first_node), first_slot);
    for (const int32_t slot : stem_slots_) {
      forest_.grid.exit[slot] = static_cast<int32_t>(forest_.grid.token_ids.size()) - 1;
    }
    for (int32_t i = shared; i < stem; ++i) {
      stem_slots_.push_back(first_slot + i - shared);
    }
  }

  SharedForest Build() && {
    forest_.grid.rows = 1;
    forest_.grid.columns = static_cast<int32_t>(forest_.grid.token_ids.size());
    return std::move(forest_);
  }

 private:
  // Returns the length of the common prefix of this stem and the stem of the question added before.
  int32_t SharedLength(int32_t first_node, int32_t stem) const {
    const int32_t limit = std::min(stem, static_cast<int32_t>(stem_slots_.size()));
    int32_t shared = 0;
    while (shared < limit &&
           trie_.token[first_node + shared] == forest_.grid.token_ids[stem_slots_[shared]]) {
      ++shared;
    }
    return shared;
  }

  void Append(int32_t first_node, int32_t end_node, int32_t first_slot) {
    TokenGrid& grid = forest_.grid;
    grid.token_ids.insert(grid.token_ids.end(), trie_.token.begin() + first_node,
                          trie_.token.begin() + end_node);
    grid.position_ids.insert(grid.position_ids.end(), trie_.depth.begin() + first_node,
                             trie_.depth.begin() + end_node);
    const int32_t shift = first_slot - first_node;
    std::transform(trie_.exit.begin() + first_node, trie_.exit.begin() + end_node,
                   std::back_inserter(grid.exit), [shift](int32_t exit) { return exit + shift; });
  }

  const Trie& trie_;
  const int32_t first_node_;
  SharedForest forest_;
  std::vector<int32_t> stem_slots_;  // slots of the stem of the question added last, by depth
};

}  // namespace

SharedForest BuildSharedForest(const Trie& trie, int32_t first_question, int32_t end_question) {
  std::vector<QuestionNodes> questions;
  for (int32_t question = first_question; question < end_question; ++question) {
    const int32_t first_node = trie.question_node_offsets[question];
    const int32_t end_node = trie.question_node_offsets[question + 1];
    questions.push_back({first_node, end_node, StemLength(trie, first_node, end_node)});
  }
  const auto token = trie.token.begin();
  std::stable_sort(
      questions.begin(), questions.end(), [token](const QuestionNodes& a, const QuestionNodes& b) {
        return std::lexicographical_compare(token + a.first_node, token + a.first_node + a.stem,
                                            token + b.first_node, token + b.first_node + b.stem);
      });
  SharedForestBuilder builder(trie, trie.question_node_offsets[first_question],
                              trie.question_node_offsets[end_question]);
  for (const QuestionNodes& question : questions) {
    builder.AddQuestion(question);
  }
  return std::move(builder).Build();
}

Trie AsTrie(const SharedForest& forest, const Trie& trie) {
  Trie shared;
  shared.token = forest.grid.token_ids;
  shared.depth = forest.grid.position_ids;
  shared.exit = forest.grid.exit;
  shared.parent = ParentSlots(forest.grid);
  shared.question_node_offsets = {0, forest.grid.columns};
  shared.path_endpoint.reserve(trie.path_endpoint.size());
  for (const int32_t node : trie.path_endpoint) {
    shared.path_endpoint.push_back(forest.node_slot[node]);
  }
  return shared;
}

}  // namespace canopy
