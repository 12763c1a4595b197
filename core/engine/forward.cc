#include "core/engine/forward.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "base/stopwatch.h"
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

// A shared forward must be forecast to take at most this fraction of the time of its jobs one after
// the other. All of its answers come at its end, and a token costs more in a forward that is too
// large for the caches than in the small forwards that forecasts are fitted to.
constexpr double kWorthSharing = 0.75;

// Several passes that are joined to one batch.
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

// Returns the most tokens that a forward of the pass should have. A single path is never cut.
int64_t LimitedTokens(const Pass& pass) {
  if (pass.limit == nullptr || pass.limit->tokens() >= pass.budget_tokens) {
    return pass.budget_tokens;
  }
  return std::min(pass.budget_tokens, std::max(pass.limit->tokens(), pass.batch->LongestPath()));
}

// Plans the pass with the route of its whole budget, even if less fits the device now.
absl::Status PlanAlone(Pass& pass) {
  if (pass.plan == nullptr) {
    CANOPY_ASSIGN_OR_RETURN(RequestPlan plan,
                            RequestPlan::Create(pass.batch, pass.route, pass.budget_tokens));
    pass.plan = std::make_shared<const RequestPlan>(std::move(plan));
    pass.plan_tokens = pass.budget_tokens;
  }
  if (const int64_t tokens = LimitedTokens(pass);
      pass.next_part == 0 && tokens < pass.plan_tokens) {
    CANOPY_ASSIGN_OR_RETURN(RequestPlan plan, pass.plan->CutSmaller(tokens));
    pass.plan = std::make_shared<const RequestPlan>(std::move(plan));
    pass.plan_tokens = tokens;
  }
  return absl::OkStatus();
}

// Returns whether the job has the results of all paths of the part.
bool IsDone(const Pass& pass, int32_t part) {
  const absl::Span<const PathRef> paths = pass.plan->PartPaths(part);
  return !pass.done.empty() && std::all_of(paths.begin(), paths.end(), [&](const PathRef& ref) {
    return pass.done[pass.path_map.empty() ? ref.path : pass.path_map[ref.path]] != 0;
  });
}

// Returns the number of parts from `part` on that are not done.
int32_t CountPartsLeft(const Pass& pass, int32_t part) {
  int32_t count = 0;
  for (; part < pass.plan->num_parts(); ++part) {
    count += IsDone(pass, part) ? 0 : 1;
  }
  return count;
}

absl::StatusOr<bool> IsWorthSharing(const RequestPlan& plan, Passes passes) {
  double alone_ms = 0;
  for (const auto& pass : passes) {
    CANOPY_RETURN_IF_ERROR(PlanAlone(*pass));
    alone_ms += pass->plan->forecast_ms();
  }
  return plan.forecast_ms() <= kWorthSharing * alone_ms;
}

// Returns how many of the first passes have no path of more than `max_tokens` tokens; at least one.
size_t CountWithoutLongerPaths(int64_t max_tokens, Passes passes) {
  size_t count = 1;
  while (count < passes.size() && passes[count]->batch->LongestPath() <= max_tokens) {
    ++count;
  }
  return count;
}

// Returns how many of the first passes together have at most `left` tokens as sent; at least one.
size_t CountWithin(int64_t left, Passes passes) {
  size_t count = 0;
  for (; count < passes.size(); ++count) {
    left -= static_cast<int64_t>(passes[count]->batch->tokens.size());
    if (left < 0) {
      break;
    }
  }
  return std::max<size_t>(count, 1);
}

// Plans all of the passes as one forward. Returns nullopt if they do not fit one forward, or if the
// forward is forecast not to pay.
absl::StatusOr<std::optional<RequestPlan>> PlanTogether(const Joined& joined, Passes passes,
                                                        int64_t budget_tokens) {
  RouteOptions route = passes.front()->route;
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
    // The fused backend never computes more than the unique tokens.
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
  while (IsDone(pass, pass.next_part)) {
    ++pass.next_part;
  }
  Forward forward;
  forward.plan = pass.plan->BuildPart(pass.next_part++);
  ForwardShare share;
  share.job_paths = JobPaths(forward.plan.paths, pass.path_map);
  share.computed_tokens = forward.plan.computed_tokens();
  share.parts_left = CountPartsLeft(pass, pass.next_part);
  share.budget_tokens = pass.plan_tokens;
  share.plan = pass.plan;
  share.counts = pass.plan->counts();
  share.route = pass.plan->route();
  forward.shares.push_back(std::move(share));
  forward.plan_ms = planning.ElapsedMs();
  return forward;
}

absl::StatusOr<Forward> PlanShared(Passes passes) {
  const Stopwatch planning;
  // Read once, because the device thread may change the limit meanwhile.
  const int64_t budget_tokens = LimitedTokens(*passes.front());
  // A path of a later pass may exceed a learned limit; that pass then runs alone.
  size_t most = CountWithoutLongerPaths(budget_tokens, passes);
  // The fused backend must take every pass that is planned for it. For other backends the loop
  // below finds a smaller number of passes.
  if (passes.front()->route.fused_supported) {
    most = std::min(most, CountWithin(budget_tokens, passes));
  }
  for (size_t count = most; count > 1; count = (count + 1) / 2) {
    const Passes first = passes.first(count);
    const Joined joined = Join(first);
    CANOPY_ASSIGN_OR_RETURN(const std::optional<RequestPlan> plan,
                            PlanTogether(joined, first, budget_tokens));
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
