#include "core/tree/work_estimate.h"

#include <algorithm>
#include <array>

#include "base/checked_math.h"
#include "core/tree/costs.h"
#include "core/tree/forest.h"
#include "core/tree/router.h"
#include "core/tree/run_trie.h"

namespace canopy {
namespace {

// Counts the groups of chains as CountSegments does, but stops when there are too many to be
// suitable.
class SegmentCounter {
 public:
  SegmentCounter(const PathBatch& batch, const RunTrie& runs) : batch_(batch), runs_(runs) {}

  // Returns true if CountSegments would set segment_suitable. Linear in the runs.
  bool IsSuitable(int64_t path_tokens) && {
    for (int32_t question = 0; question < batch_.num_questions(); ++question) {
      if (!AddQuestion(question)) {
        return false;
      }
    }
    int64_t packed_queries = 0;
    for (int i = 0; i < num_groups_; ++i) {
      packed_queries =
          SaturatingAdd(packed_queries, SaturatingMultiply(groups_[i].rows, groups_[i].longest));
    }
    return packed_queries <= path_tokens;
  }

 private:
  struct Group {
    int64_t start_depth = 0;
    int64_t rows = 0;
    int64_t longest = 0;
  };

  // Adds the chains of a question. A chain begins at a root and below every branch.
  bool AddQuestion(int32_t question) {
    const int32_t root = runs_.root(question);
    const int64_t prefix = batch_.prefixes[question].size;
    if (prefix > 0 && !AddChain(root, 0)) {
      return false;
    }
    for (int32_t index = root; index < runs_.end_run(question); ++index) {
      const Run& run = runs_.run(index);
      if (run.num_children == 1 && run.size > 0) {
        continue;
      }
      for (int32_t child = run.first_child; child != kNone; child = runs_.run(child).next_sibling) {
        const Run& first = runs_.run(child);
        if (!AddChain(child, prefix + first.end - first.size)) {
          return false;
        }
      }
    }
    return true;
  }

  bool AddChain(int32_t index, int64_t start_depth) {
    int64_t size = runs_.run(index).size;
    while (runs_.run(index).num_children == 1) {
      index = runs_.run(index).first_child;
      size += runs_.run(index).size;
    }
    auto* const end = groups_.begin() + num_groups_;
    auto* group = std::find_if(groups_.begin(), end, [start_depth](const Group& known) {
      return known.start_depth == start_depth;
    });
    if (group == end) {
      if (num_groups_ == kMaxSuitableSegmentGroups) {
        return false;
      }
      ++num_groups_;
      *group = {start_depth, 0, 0};
    }
    ++group->rows;
    group->longest = std::max(group->longest, size);
    return true;
  }

  const PathBatch& batch_;
  const RunTrie& runs_;
  std::array<Group, kMaxSuitableSegmentGroups> groups_;
  int num_groups_ = 0;
};

// Returns true if the reference policy makes RequestPlan run a forest. Segments are counted only if
// the mask does not fit, because dense and segmented compute the same slots.
bool RunsForest(const PathBatch& batch, const RunTrie& runs, const RouteOptions& options,
                PlanCounts counts) {
  if (RouteWithoutSegments(options, counts).has_value()) {
    return false;
  }
  counts.segment_suitable = counts.mask_bytes > options.max_mask_bytes &&
                            SegmentCounter(batch, runs).IsSuitable(counts.path_tokens);
  return RouteWithSegments(options, counts).backend != Backend::kPath;
}

// Without a mask budget only the fused backend, which needs no mask, runs a tree.
bool RunsPathByCounts(const RouteOptions& options, const PlanCounts& counts) {
  return RouteWithoutTrie(options, counts).has_value() ||
         (options.backend != Backend::kFused && options.max_mask_bytes <= 0);
}

}  // namespace

WorkEstimate EstimateWork(const PathBatch& batch, const RouteOptions& options) {
  PlanCounts counts = CountPaths(batch);
  WorkEstimate estimate;
  estimate.path_tokens = counts.path_tokens;
  estimate.input_tokens = counts.input_tokens;
  estimate.computed_tokens = counts.path_tokens;
  if (RunsPathByCounts(options, counts)) {
    return estimate;
  }
  const RunTrie runs(batch);
  int64_t unique = 0;
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    int64_t nodes = 0;
    for (int32_t index = runs.root(question); index < runs.end_run(question); ++index) {
      nodes += runs.run(index).size;
    }
    unique += nodes;
    estimate.largest_question_tokens = std::max(estimate.largest_question_tokens, nodes);
  }
  if (options.backend == Backend::kFused || IsRoutedByCost(options)) {
    estimate.computed_tokens = unique;
    return estimate;
  }
  const LayoutChoice layout = ChooseLayout(batch.num_questions(), estimate.largest_question_tokens,
                                           unique, options.packing);
  counts.forest_tokens = layout.forest_tokens;
  counts.mask_bytes = layout.mask_bytes;
  if (RunsForest(batch, runs, options, counts)) {
    estimate.computed_tokens = layout.forest_tokens;
  }
  return estimate;
}

}  // namespace canopy
