// Builds forwards from jobs: a part of one job, or several jobs that share a forward. Runs on the
// host, on the thread that plans.
#ifndef CORE_ENGINE_FORWARD_H_
#define CORE_ENGINE_FORWARD_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/engine/forward_limit.h"
#include "core/engine/types.h"
#include "core/tree/path_batch.h"
#include "core/tree/route.h"
#include "core/tree/tree_plan.h"

namespace canopy {

// The paths of a job that must run, for the first time or again. After it was handed over, only the
// thread that plans uses it.
struct Pass {
  std::shared_ptr<const PathBatch> batch;
  std::vector<int32_t> path_map;  // the index of each path in the job; empty = the identity
  RouteOptions route;
  int64_t budget_tokens = 0;  // the most tokens of one forward
  // The largest forward of the model that is known to fit; null = unknown. Must outlive the pass.
  const ForwardLimit* limit = nullptr;
  // [the job's paths]; 1 = the job already has the results of the path, from a pass that ran out of
  // memory. A part without other paths is skipped. Empty = the job has no results.
  std::vector<uint8_t> done;

  // Set after the first part is planned, or taken from a previous pass whose parts were too large.
  std::shared_ptr<const RequestPlan> plan;
  int64_t plan_tokens = 0;  // the budget that `plan` was cut for
  int32_t next_part = 0;
};

// The share that one job has in a forward.
struct ForwardShare {
  int32_t first_row = 0;                    // the first of its paths among those of the plan ...
  std::vector<int32_t> job_paths;           // ... and the index of each path in the job
  int64_t computed_tokens = 0;              // the shares of all jobs add up to those of the plan
  int32_t parts_left = 0;                   // the parts of its pass after this one
  int64_t budget_tokens = 0;                // the budget that its pass was cut for
  std::shared_ptr<const RequestPlan> plan;  // the plan of its pass; null in a shared forward
  PlanCounts counts;  // the job's own if the contract says so, else those of the forward
  Route route;

  // Returns whether the job's pass runs in several forwards.
  bool IsPart() const { return parts_left > 0 || (plan != nullptr && plan->num_parts() > 1); }
};

// Immutable once built.
struct Forward {
  TreePlan plan;
  std::vector<ForwardShare> shares;  // one per job
  double plan_ms = 0;
};

// Builds the next part of a pass that has one. Returns the errors of RequestPlan::Create.
absl::StatusOr<Forward> PlanNextPart(Pass& pass);

// Builds one forward from the first passes of several. The number of shares in the result is the
// number of passes that run.
//
// If the costs choose the backend and the fused backend does not run, the forward contains all
// passes, or the first half of them, and so on, until they fit one forward that is forecast to pay.
// The last resort is the next part of the first pass alone. The passes must not have begun. They
// must have equal routes, no path_map, valid batches and together no more unique tokens than the
// budget. If a learned limit is smaller than the budget, only the first passes that stay within the
// limit run, up to the first pass that has a path longer than the limit. Paths keep their order. A
// row that several jobs need counts for the first of them. Returns the errors of
// RequestPlan::Create.
absl::StatusOr<Forward> PlanShared(absl::Span<const std::shared_ptr<Pass>> passes);

}  // namespace canopy

#endif  // CORE_ENGINE_FORWARD_H_
