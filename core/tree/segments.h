// Segments are maximal single-child chains of a forest. They are grouped by the depth at which they
// start, so that the attention of a group is one plain causal call.
//
//   paths  A B C | A B D | A E      chains      A    at depth 0, no ancestors
//                                               B, E at depth 1, ancestors A
//                                               C, D at depth 2, ancestors A B
//
// Chains of different questions can share a group, because only their start depth matters.
#ifndef CORE_TREE_SEGMENTS_H_
#define CORE_TREE_SEGMENTS_H_

#include <cstdint>
#include <vector>

#include "core/tree/forest.h"
#include "core/tree/trie.h"

namespace canopy {

// The chains that start at one depth, as one causal attention call. Queries are right padded to the
// longest chain; the keys of a row are its ancestors followed by its queries. Indices are flat grid
// slots.
struct SegmentGroup {
  int32_t start_depth = 0;              // number of ancestors of every chain in the group
  int32_t rows = 0;                     // number of chains
  int32_t query_length = 0;             // length of the longest chain
  std::vector<int32_t> query_index;     // [rows, query_length]; padding repeats the row's last slot
  std::vector<int32_t> ancestor_index;  // [rows, start_depth], root first
};

struct SegmentPlan {
  std::vector<SegmentGroup> groups;  // by start depth
  // [grid rows x columns], the index of each slot's output in the concatenated rows of all groups.
  // Padding slots of the grid read output 0.
  std::vector<int32_t> restore_index;
};

// The size of one group.
struct SegmentGroupShape {
  int32_t start_depth = 0;
  int32_t rows = 0;
  int32_t query_length = 0;
};

// Returns the groups of questions first_question .. end_question - 1, ordered by start depth.
std::vector<SegmentGroupShape> SegmentGroupShapes(const Trie& trie, int32_t first_question,
                                                  int32_t end_question);

// Returns the groups with their indices. Precondition: they have fewer than 2^31 queries in all,
// padding included.
SegmentPlan BuildSegments(const Forest& forest);

}  // namespace canopy

#endif  // CORE_TREE_SEGMENTS_H_
