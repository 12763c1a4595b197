#include "core/engine/forward.h"

#include <numeric>
#include <optional>
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

using Passes = absl::Span<const std::shared_ptr<Pass>>;

// A shared forward must be forecast to take at most this part of the time that its jobs take one
// after the other: its answers all come at its end, and a token costs more in a forward that is too
// large for the caches than in the small ones that forecasts are fitted to.
constexpr double kWorthSharing = 0.75;

// Several passes as one batch.
struct Joined {
  std::shared_ptr<const PathBatch> batch;
  std::vector<int32_t> path_offsets;  // [passes + 1]
};

Joined Join(Passes passes) {
  Joined joined;
  auto all = std::make_shared<PathBatch>();
  all->question_offsets.push_back(0);
  joined.path_offsets.push_back(0);
  for (const auto& pass : passes) {
    AppendBatch(*pass->batch, *all);
    joined.path_offsets.push_back(all->num_paths());
  }
  joined.batch = std::move(all);
  return joined;
}

absl::Status PlanAlone(Pass& pass) {
  if (pass.plan == nullptr) {
    CANOPY_ASSIGN_OR_RETURN(RequestPlan plan,
                            RequestPlan::Create(pass.batch, pass.route, pass.budget_tokens));
    pass.plan = std::make_shared<const RequestPlan>(std::move(plan));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> IsWorthSharing(const RequestPlan& plan, Passes passes) {
  double alone_ms = 0;
  for (const auto& pass : passes) {
    CANOPY_RETURN_IF_ERROR(PlanAlone(*pass));
    alone_ms += pass->plan->forecast_ms();
  }
  return plan.forecast_ms() <= kWorthSharing * alone_ms;
}

// All in one forward, or nothing where they had better not.
absl::StatusOr<std::optional<RequestPlan>> PlanTogether(const Joined& joined, Passes passes) {
  RouteOptions route = passes.front()->route;
  const int64_t budget_tokens = passes.front()->budget_tokens;
  route.one_forward = true;
  CANOPY_ASSIGN_OR_RETURN(RequestPlan plan,
                          RequestPlan::Create(joined.batch, route, budget_tokens));
  if (!route.fused_supported) {
    if (plan.num_parts() > 1) {
      return std::nullopt;
    }
    CANOPY_ASSIGN_OR_RETURN(const bool pays, IsWorthSharing(plan, passes));
    return pays ? std::make_optional(std::move(plan)) : std::nullopt;
  }
  if (plan.num_parts() > 1) {
    // It never computes more than the unique tokens.
    route.backend = Backend::kFused;
    CANOPY_ASSIGN_OR_RETURN(plan, RequestPlan::Create(joined.batch, route, budget_tokens));
  }
  if (plan.num_parts() > 1) {
    return absl::InternalError("a shared forward does not fit its budget");
  }
  return plan;
}

Forward BuildShared(const RequestPlan& plan, const std::vector<int32_t>& path_offsets,
                    Passes passes) {
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
    if (pass.route.backend == Backend::kAuto && share.route.reason == Reason::kRequested) {
      share.route.reason = Reason::kMeasured;
    }
    forward.shares.push_back(std::move(share));
  }
  return forward;
}

}  // namespace

absl::StatusOr<Forward> PlanNextPart(Pass& pass) {
  const Stopwatch planning;
  CANOPY_RETURN_IF_ERROR(PlanAlone(pass));
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

absl::StatusOr<Forward> PlanShared(Passes passes) {
  const Stopwatch planning;
  for (size_t count = passes.size(); count > 1; count = (count + 1) / 2) {
    const Passes first = passes.first(count);
    const Joined joined = Join(first);
    CANOPY_ASSIGN_OR_RETURN(const std::optional<RequestPlan> plan, PlanTogether(joined, first));
    if (plan.has_value()) {
      Forward forward = BuildShared(*plan, joined.path_offsets, first);
      forward.plan_ms = planning.ElapsedMs();
      return forward;
    }
  }
  CANOPY_ASSIGN_OR_RETURN(Forward forward, PlanNextPart(*passes.front()));
  forward.plan_ms = planning.ElapsedMs();
  return forward;
}

}  // namespace canopy
