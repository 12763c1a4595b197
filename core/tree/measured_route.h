// The measured policy, which chooses the backend with the lowest forecast cost.
#ifndef CORE_TREE_MEASURED_ROUTE_H_
#define CORE_TREE_MEASURED_ROUTE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/tree/parts.h"
#include "core/tree/path_batch.h"
#include "core/tree/route.h"
#include "core/tree/route_costs.h"
#include "core/tree/trie.h"

namespace canopy {

// Returns the work of `backend` for `parts`. Precondition: `counts` has the counts that this
// backend's own routing rule reads. If a question is cut into several parts, pairs and groups are
// estimates.
RouteLoad LoadOf(Backend backend, const PlanCounts& counts, const std::vector<Part>& parts);

// One way to run a request.
struct RouteCandidate {
  Route route;  // policy kMeasured, reason kMeasured
  PartList cut;
  RouteLoad load;
  PlanCounts counts;
  // the trie that the single part uses; null = each question has its own nodes
  std::shared_ptr<const Trie> shared_trie;
  double ms = 0;  // forecast
};

struct CandidateInput {
  const PathBatch& batch;
  const Trie& trie;
  PlanCounts counts;  // every count, segments included
  Layout layout = Layout::kPadded;
  const RouteOptions& options;  // costs must be set
  int64_t max_batch_tokens = 0;
  // The trie in which questions with equal first tokens share nodes (core/tree/shared_forest.h),
  // and all counts of its flat layout. Null if questions do not share nodes.
  std::shared_ptr<const Trie> shared_trie;
  PlanCounts shared_counts;
};

// Returns every backend that has measured costs and may run, path first. The path backend is always
// a candidate. The other backends need a mask budget above 0 and have these conditions:
// - dense: the mask of each forward (not of the whole request) fits the budget;
// - segmented: the chains form few enough groups;
// - fused: it is supported on this model and device.
// Dense and segmented use the shared trie if it exists, fits in one forward and costs less. With a
// shared trie the number of groups has only a coarse limit. Linear in questions and paths.
std::vector<RouteCandidate> RouteCandidates(const CandidateInput& input);

// Returns the candidate with the lowest forecast, or the first of several equal ones.
const RouteCandidate& LeastCostly(const std::vector<RouteCandidate>& candidates);

}  // namespace canopy

#endif  // CORE_TREE_MEASURED_ROUTE_H_
