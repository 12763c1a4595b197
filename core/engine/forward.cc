#include "core/engine/forward.h"

#include <numeric>
#include <utility>

#include "core/base/status_macros.h"
#include "core/base/stopwatch.h"
#include "core/tree/costs.h"
#include "core/tree/row_shares.h"

namespace canopy {
namespace {

std::vector<int32_t> JobPaths(std::vector<int32_t> plan_paths,
                              const std::vector<int32_t>& path_map) {
  if (!path_map.empty()) {
    for (int32_t& path : plan_paths) {
      path = path_map[path];
    }
  }
  return plan_paths;
}

void AppendBatch(const PathBatch& batch, PathBatch& all) {
  const auto shift = static_cast<int64_t>(all.tokens.size());
  const auto shifted = [shift](TokenSpan span) {
    span.begin += shift;
    return span;
  };
  const int32_t first_path = all.num_paths();
  all.tokens.insert(all.tokens.end(), batch.tokens.begin(), batch.tokens.end());
  for (const TokenSpan& prefix : batch.prefixes) {
    all.prefixes.push_back(shifted(prefix));
  }
  for (const TokenSpan& suffix : batch.suffixes) {
    all.suffixes.push_back(shifted(suffix));
  }
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    all.question_offsets.push_back(first_path + batch.question_offsets[question + 1]);
  }
}

// One part: where the costs choose a backend that pads beyond the budget, the fused one, which
// never computes more than the tokens as sent.
absl::StatusOr<RequestPlan> PlanTogether(const std::shared_ptr<const PathBatch>& batch,
                                         RouteOptions route, int64_t budget_tokens) {
  CANOPY_ASSIGN_OR_RETURN(RequestPlan plan, RequestPlan::Create(batch, route, budget_tokens));
  if (plan.num_parts() > 1) {
    route.backend = Backend::kFused;
    CANOPY_ASSIGN_OR_RETURN(plan, RequestPlan::Create(batch, route, budget_tokens));
  }
  if (plan.num_parts() > 1) {
    return absl::InternalError("a shared forward does not fit its budget");
  }
  return plan;
}

}  // namespace

absl::StatusOr<Forward> PlanNextPart(Pass& pass) {
  const Stopwatch planning;
  if (pass.plan == nullptr) {
    CANOPY_ASSIGN_OR_RETURN(RequestPlan plan,
                            RequestPlan::Create(pass.batch, pass.route, pass.budget_tokens));
    pass.plan = std::make_shared<const RequestPlan>(std::move(plan));
  }
  Forward forward;
  forward.plan = pass.plan->BuildPart(pass.next_part++);
  ForwardShare share;
  share.job_paths = JobPaths(forward.plan.paths, pass.path_map);
  share.computed_tokens = forward.plan.computed_tokens();
  share.parts_left = pass.plan->num_parts() - pass.next_part;
  share.budget_tokens = pass.budget_tokens;
  share.counts = pass.plan->counts();
  share.route = pass.plan->route();
  forward.shares.push_back(std::move(share));
  forward.plan_ms = planning.ElapsedMs();
  return forward;
}

absl::StatusOr<Forward> PlanShared(absl::Span<const std::shared_ptr<Pass>> passes) {
  const Stopwatch planning;
  auto all = std::make_shared<PathBatch>();
  all->question_offsets.push_back(0);
  std::vector<int32_t> path_offsets = {0};
  for (const auto& pass : passes) {
    AppendBatch(*pass->batch, *all);
    path_offsets.push_back(all->num_paths());
  }
  const RouteOptions& asked = passes.front()->route;
  CANOPY_ASSIGN_OR_RETURN(const RequestPlan plan,
                          PlanTogether(all, asked, passes.front()->budget_tokens));
  Forward forward;
  forward.plan = plan.BuildPart(0);
  const std::vector<int64_t> row_shares = CountRowShares(forward.plan, path_offsets);
  int32_t first_question = 0;
  for (size_t i = 0; i < passes.size(); ++i) {
    const Pass& pass = *passes[i];
    ForwardShare share;
    share.first_row = path_offsets[i];
    share.job_paths.resize(pass.batch->suffixes.size());
    std::iota(share.job_paths.begin(), share.job_paths.end(), 0);
    share.computed_tokens = row_shares[i];
    share.budget_tokens = pass.budget_tokens;
    share.counts = plan.counts();
    const PlanCounts own = CountPaths(*pass.batch);
    share.counts.path_tokens = own.path_tokens;
    share.counts.input_tokens = own.input_tokens;
    const int32_t end_question = first_question + pass.batch->num_questions();
    if (const Trie* trie = plan.trie(); trie != nullptr) {
      share.counts.unique_tokens =
          trie->question_node_offsets[end_question] - trie->question_node_offsets[first_question];
    }
    first_question = end_question;
    share.route = plan.route();
    if (asked.backend == Backend::kAuto && share.route.reason == Reason::kRequested) {
      share.route.reason = Reason::kMeasured;
    }
    forward.shares.push_back(std::move(share));
  }
  forward.plan_ms = planning.ElapsedMs();
  return forward;
}

}  // namespace canopy
