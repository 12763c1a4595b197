// The measured policy: the backend whose forecast is least.
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

// What `parts` make `backend` run. Of a question that is cut, pairs and groups are an estimate.
// Wants the counts that the backend's own route is decided by.
RouteLoad LoadOf(Backend backend, const PlanCounts& counts, const std::vector<Part>& parts);

// One way to run a request.
struct RouteCandidate {
  Route route;  // by Policy::kMeasured, reason kMeasured
  PartList cut;
  RouteLoad load;
  PlanCounts counts;
  std::shared_ptr<const Trie> shared_trie;  // that its one part runs over; null = questions apart
  double ms = 0;                            // forecast
};

struct CandidateInput {
  const PathBatch& batch;
  const Trie& trie;
  PlanCounts counts;  // all of them, segments included
  Layout layout = Layout::kPadded;
  const RouteOptions& options;  // with costs
  int64_t max_batch_tokens = 0;
  // The trie in which questions that begin alike share nodes (core/tree/shared_forest.h), and all
  // counts of its flat layout; null = questions are kept apart.
  std::shared_ptr<const Trie> shared_trie;
  PlanCounts shared_counts;
};

// Every backend that was measured and may run: path always; with a mask budget above 0 also dense,
// where the mask of each forward (not of the whole request) fits it, segmented, where its chains
// group well, and fused, where it runs. Dense and segmented run over the shared trie where that is
// there, fits one forward and costs less; there groups are limited only by what they cost. At least
// one, path first. Linear in questions and paths.
std::vector<RouteCandidate> RouteCandidates(const CandidateInput& input);

// The candidate with the least forecast; the first of equal ones.
const RouteCandidate& LeastCostly(const std::vector<RouteCandidate>& candidates);

}  // namespace canopy

#endif  // CORE_TREE_MEASURED_ROUTE_H_
