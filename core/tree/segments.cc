#include "core/tree/segments.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace canopy {
namespace {

// Calls visit(first, end) for each chain of the question's nodes, in depth-first order. A node
// continues the chain of the node before it exactly when both have the same exit: the previous node
// is then its parent and has no other child.
template <typename Visit>
void ForEachChain(const Trie& trie, int32_t question, Visit visit) {
  const int32_t end_node = trie.question_node_offsets[question + 1];
  int32_t first = trie.question_node_offsets[question];
  while (first < end_node) {
    const int32_t exit = trie.exit[first];
    int32_t end = first + 1;
    while (end < end_node && trie.exit[end] == exit) {
      ++end;
    }
    visit(first, end);
    first = end;
  }
}

constexpr int32_t kNoGroup = -1;

// Fills the groups of one forest chain by chain.
class SegmentBuilder {
 public:
  explicit SegmentBuilder(const Forest& forest) : forest_(forest) {
    const auto shapes =
        SegmentGroupShapes(*forest.trie, forest.first_question, forest.end_question);
    int32_t output_offset = 0;
    for (const SegmentGroupShape& shape : shapes) {
      depth_to_group_.resize(shape.start_depth + 1, kNoGroup);
      depth_to_group_.back() = static_cast<int32_t>(plan_.groups.size());
      output_offsets_.push_back(output_offset);
      output_offset += shape.rows * shape.query_length;
      SegmentGroup& group = plan_.groups.emplace_back();
      group.start_depth = shape.start_depth;
      group.query_length = shape.query_length;
      group.query_index.reserve(static_cast<size_t>(shape.rows) * shape.query_length);
      group.ancestor_index.reserve(static_cast<size_t>(shape.rows) * shape.start_depth);
    }
    plan_.restore_index.resize(static_cast<size_t>(forest.rows) * forest.columns);
  }

  SegmentPlan Build() && {
    for (int32_t question = forest_.first_question; question < forest_.end_question; ++question) {
      const int32_t shift = forest_.SlotShift(question);
      ForEachChain(*forest_.trie, question, [this, shift](int32_t first, int32_t end) {
        AddChain(forest_.trie->depth[first], first + shift, end - first);
      });
    }
    return std::move(plan_);
  }

 private:
  void AddChain(int32_t depth, int32_t slot, int32_t size) {
    const int32_t group_index = depth_to_group_[depth];
    SegmentGroup& group = plan_.groups[group_index];
    const auto restore = plan_.restore_index.begin() + slot;
    std::iota(restore, restore + size,
              output_offsets_[group_index] + group.rows * group.query_length);
    ++group.rows;

    // Nodes come depth first, so the slots above `depth` are still the ancestors of this chain.
    path_slots_.resize(depth + size);
    const auto chain = path_slots_.begin() + depth;
    std::iota(chain, path_slots_.end(), slot);
    group.ancestor_index.insert(group.ancestor_index.end(), path_slots_.begin(), chain);
    group.query_index.insert(group.query_index.end(), chain, path_slots_.end());
    group.query_index.insert(group.query_index.end(), group.query_length - size, slot + size - 1);
  }

  const Forest& forest_;
  SegmentPlan plan_;
  std::vector<int32_t> depth_to_group_;
  // [groups], the index of a group's first row in the outputs
  std::vector<int32_t> output_offsets_;
  std::vector<int32_t> path_slots_;  // slots of the last visited chain and of its ancestors
};

}  // namespace

std::vector<SegmentGroupShape> SegmentGroupShapes(const Trie& trie, int32_t first_question,
                                                  int32_t end_question) {
  std::vector<SegmentGroupShape> by_depth;
  for (int32_t question = first_question; question < end_question; ++question) {
    ForEachChain(trie, question, [&by_depth, &trie](int32_t first, int32_t end) {
      const auto depth = static_cast<size_t>(trie.depth[first]);
      if (depth >= by_depth.size()) {
        by_depth.resize(depth + 1);
      }
      by_depth[depth].start_depth = trie.depth[first];
      ++by_depth[depth].rows;
      by_depth[depth].query_length = std::max(by_depth[depth].query_length, end - first);
    });
  }
  by_depth.erase(std::remove_if(by_depth.begin(), by_depth.end(),
                                [](const SegmentGroupShape& shape) { return shape.rows == 0; }),
                 by_depth.end());
  return by_depth;
}

SegmentPlan BuildSegments(const Forest& forest) { return SegmentBuilder(forest).Build(); }

}  // namespace canopy
