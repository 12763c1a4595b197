#include "core/tree/forest.h"

#include <algorithm>
#include <numeric>

#include "base/checked_math.h"

namespace canopy {
namespace {

int32_t NumNodes(const Trie& trie, int32_t question) {
  return trie.question_node_offsets[question + 1] - trie.question_node_offsets[question];
}

int32_t LargestTrie(const Trie& trie, int32_t first_question, int32_t end_question) {
  int32_t largest = 0;
  for (int32_t question = first_question; question < end_question; ++question) {
    largest = std::max(largest, NumNodes(trie, question));
  }
  return largest;
}

}  // namespace

int32_t Forest::ColumnShift(int32_t question) const {
  return -trie->question_node_offsets[layout == Layout::kFlat ? first_question : question];
}

int32_t Forest::SlotShift(int32_t question) const {
  const int32_t row = layout == Layout::kFlat ? 0 : question - first_question;
  return row * columns + ColumnShift(question);
}

LayoutChoice ChooseLayout(const Trie& trie, Packing packing) {
  return ChooseLayout(trie.num_questions(), LargestTrie(trie, 0, trie.num_questions()),
                      trie.num_nodes(), packing);
}

LayoutChoice ChooseLayout(int64_t questions, int64_t largest, int64_t unique, Packing packing) {
  const int64_t padded_mask = SaturatingMultiply(questions, largest * largest);
  const bool flat = packing == Packing::kAuto && unique * unique < padded_mask;

  LayoutChoice choice;
  choice.layout = flat ? Layout::kFlat : Layout::kPadded;
  choice.forest_tokens = flat ? unique : questions * largest;
  choice.mask_bytes =
      SaturatingMultiply(flat ? unique * unique : padded_mask, int64_t{sizeof(float)});
  return choice;
}

LayoutChoice FlatLayoutWithoutMask(const Trie& trie) {
  return {Layout::kFlat, trie.num_nodes(), 0};
}

Forest LayOutForest(const Trie& trie, Layout layout, int32_t first_question, int32_t end_question) {
  Forest forest{&trie, layout, first_question, end_question, 0, 0};
  if (layout == Layout::kFlat) {
    forest.rows = 1;
    forest.columns =
        trie.question_node_offsets[end_question] - trie.question_node_offsets[first_question];
  } else {
    forest.rows = end_question - first_question;
    forest.columns = LargestTrie(trie, first_question, end_question);
  }
  return forest;
}

TokenGrid BuildForestGrid(const Forest& forest) {
  const Trie& trie = *forest.trie;
  TokenGrid grid;
  grid.rows = forest.rows;
  grid.columns = forest.columns;
  const size_t slots = static_cast<size_t>(grid.rows) * grid.columns;
  grid.token_ids.resize(slots);
  grid.position_ids.resize(slots);
  grid.exit.resize(slots);
  for (int32_t question = forest.first_question; question < forest.end_question; ++question) {
    const int32_t node = trie.question_node_offsets[question];
    const int32_t num_nodes = NumNodes(trie, question);
    const int32_t slot = node + forest.SlotShift(question);
    std::copy_n(trie.token.begin() + node, num_nodes, grid.token_ids.begin() + slot);
    std::copy_n(trie.depth.begin() + node, num_nodes, grid.position_ids.begin() + slot);
    const int32_t shift = forest.ColumnShift(question);
    std::transform(trie.exit.begin() + node, trie.exit.begin() + node + num_nodes,
                   grid.exit.begin() + slot, [shift](int32_t exit) { return exit + shift; });
    if (forest.layout == Layout::kPadded) {
      std::iota(grid.exit.begin() + slot + num_nodes, grid.exit.begin() + slot + forest.columns,
                num_nodes);
    }
  }
  return grid;
}

}  // namespace canopy
