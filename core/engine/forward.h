// From jobs to what the device runs in one go: a part of one job, or several jobs that share a
// forward. Host work, for the thread that plans.
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

// A job's paths, or those of them that must run again, on their way through the device. Used by the
// thread that plans alone once it was handed over.
struct Pass {
  std::shared_ptr<const PathBatch> batch;
  std::vector<int32_t> path_map;  // the job's index of each path; empty = the same
  RouteOptions route;
  int64_t budget_tokens = 0;  // of a forward, at most
  // What forwards of the model were found to fit; null = unknown. Outlives the pass.
  const ForwardLimit* limit = nullptr;
  // [the job's paths]; 1 = the job has its results already, from a pass that memory ran out in.
  // Parts that have no other path are skipped. Empty = it has none.
  std::vector<uint8_t> done;

  // Once the first part is planned, or from a pass before that was cut too large.
  std::shared_ptr<const RequestPlan> plan;
  int64_t plan_tokens = 0;  // the budget that the plan is cut for
  int32_t next_part = 0;
};

// What one job has in a forward.
struct ForwardShare {
  int32_t first_row = 0;                    // its paths among those of the plan ...
  std::vector<int32_t> job_paths;           // ... and their indices in the job
  int64_t computed_tokens = 0;              // of the plan; the shares of all jobs add up
  int32_t parts_left = 0;                   // of its pass, after this one
  int64_t budget_tokens = 0;                // that its pass is cut for
  std::shared_ptr<const RequestPlan> plan;  // of its pass; null in a shared forward
  PlanCounts counts;  // the job's own where the contract says so, else the forward's
  Route route;

  // The job's pass runs in several forwards.
  bool IsPart() const { return parts_left > 0 || (plan != nullptr && plan->num_parts() > 1); }
};

// Immutable once built.
struct Forward {
  TreePlan plan;
  std::vector<ForwardShare> shares;  // one a job
  double plan_ms = 0;
};

// The next part of a pass that has one. Errors of RequestPlan::Create.
absl::StatusOr<Forward> PlanNextPart(Pass& pass);

// One forward of the first of several passes, as many as the shares that it has: all of them, or,
// where costs choose the backend and it is not the fused one, half of them and half again until
// they fit one forward that is forecast to pay, down to the next part of the first alone. The
// passes have not begun, and have equal routes, no path_map and together no more unique tokens than
// the budget; of those, the first ones run together that are within the limit too, up to the first
// pass that has a path longer than the limit. Paths keep their order; a row that several need
// counts for the first of them. Wants valid batches. Errors of RequestPlan::Create.
absl::StatusOr<Forward> PlanShared(absl::Span<const std::shared_ptr<Pass>> passes);

}  // namespace canopy

#endif  // CORE_ENGINE_FORWARD_H_
