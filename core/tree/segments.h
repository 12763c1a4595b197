// Segments: maximal single-child chains of a forest, grouped by the depth at which they start, so
// that the attention of a group is one plain causal call.
//
//   paths  A B C | A B D | A E      chains      A    at depth 0, no ancestors
//                                               B, E at depth 1, ancestors A
//                                               C, D at depth 2, ancestors A B
//
// Chains of different questions share a group: only depth counts.
#ifndef CORE_TREE_SEGMENTS_H_
#define CORE_TREE_SEGMENTS_H_

#include <cstdint>
#include <vector>

#include "core/tree/forest.h"
#include "core/tree/trie.h"

namespace canopy {

// Chains that start at one depth, as one causal attention call: queries are right padded to the
// longest chain; keys are the ancestors, then the same queries. Indices are flat grid slots.
struct SegmentGroup {
  int32_t start_depth = 0;              // ancestors of every chain in the group
  int32_t rows = 0;                     // chains
  int32_t query_length = 0;             // longest chain
  std::vector<int32_t> query_index;     // [rows, query_length]; padding repeats the row's last slot
  std::vector<int32_t> ancestor_index;  // [rows, start_depth], root first
};

struct SegmentPlan {
  std::vector<SegmentGroup> groups;  // by start depth
  // [grid rows x columns]: where a slot's output stands among the groups' rows, concatenated.
  // Padding slots of the grid read output 0.
  std::vector<int32_t> restore_index;
};

// The size of one group.
struct SegmentGroupShape {
  int32_t start_depth = 0;
  int32_t rows = 0;
  int32_t query_length = 0;
};

// The groups of questions first_question .. end_question - 1, by start depth.
std::vector<SegmentGroupShape> SegmentGroupShapes(const Trie& trie, int32_t first_question,
                                                  int32_t end_question);

// The groups with their indices. Fewer than 2^31 queries in all, padding included.
SegmentPlan BuildSegments(const Forest& forest);

}  // namespace canopy

#endif  // CORE_TREE_SEGMENTS_H_
