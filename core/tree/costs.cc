#include "core/tree/costs.h"

#include <algorithm>
#include <numeric>

#include "base/checked_math.h"
#include "core/tree/router.h"
#include "core/tree/segments.h"

namespace canopy {

PlanCounts CountPaths(const PathBatch& batch) {
  int64_t longest = 0;
  PlanCounts counts;
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    const int32_t end_path = batch.question_offsets[question + 1];
    for (int32_t path = batch.question_offsets[question]; path < end_path; ++path) {
      const int64_t length = batch.PathLength(question, path);
      longest = std::max(longest, length);
      counts.input_tokens += length;
    }
  }
  counts.path_tokens = SaturatingMultiply(batch.num_paths(), longest);
  return counts;
}

void CountForest(const Trie& trie, const LayoutChoice& choice, PlanCounts& counts) {
  counts.unique_tokens = trie.num_nodes();
  counts.forest_tokens = choice.forest_tokens;
  counts.mask_bytes = choice.mask_bytes;
  counts.visible_pairs =
      std::accumulate(trie.depth.begin(), trie.depth.end(), int64_t{trie.num_nodes()});
}

void CountSegments(const Trie& trie, PlanCounts& counts) {
  counts.packed_queries = 0;
  counts.attention_pairs = 0;
  const auto shapes = SegmentGroupShapes(trie, 0, trie.num_questions());
  for (const SegmentGroupShape& shape : shapes) {
    const int64_t queries = shape.query_length;
    const int64_t pairs_a_row = shape.start_depth * queries + queries * (queries + 1) / 2;
    counts.packed_queries += shape.rows * queries;
    counts.attention_pairs =
        SaturatingAdd(counts.attention_pairs, SaturatingMultiply(shape.rows, pairs_a_row));
  }
  counts.segment_groups = static_cast<int64_t>(shapes.size());
  counts.segment_suitable = counts.segment_groups <= kMaxSuitableSegmentGroups &&
                            counts.packed_queries <= counts.path_tokens;
}

}  // namespace canopy
