#include "core/engine/job_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_details.h"
#include "core/base/status_macros.h"
#include "core/base/stopwatch.h"
#include "core/engine/result_merge.h"
#include "core/tree/tree_plan.h"

namespace canopy {
namespace {

int64_t LongestPath(const PathBatch& batch) {
  int64_t longest = 0;
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    for (int32_t path = batch.question_offsets[question];
         path < batch.question_offsets[question + 1]; ++path) {
      longest = std::max(longest, batch.PathLength(question, path));
    }
  }
  return longest;
}

// The request's path index for each path of a plan; an empty map stands for the request itself.
std::vector<int32_t> RequestPaths(std::vector<int32_t> plan_paths,
                                  const std::vector<int32_t>& path_map) {
  if (!path_map.empty()) {
    for (int32_t& path : plan_paths) {
      path = path_map[path];
    }
  }
  return plan_paths;
}

// One pass over all parts of a plan. `failed_tokens` gets the size of a part that the device
// refused.
class PlanPass {
 public:
  PlanPass(const ScoreJob& job, ModelRunner& runner, ScoreResult& result)
      : job_(job), runner_(runner), result_(result) {}

  absl::Status Run(const RequestPlan& plan, const std::vector<int32_t>& path_map) {
    for (int32_t index = 0; index < plan.num_parts(); ++index) {
      CANOPY_RETURN_IF_ERROR(CheckWanted(job_));
      const Stopwatch planning;
      const TreePlan part = plan.BuildPart(index);
      result_.times.plan_ms += planning.ElapsedMs();
      last_part_tokens_ = part.computed_tokens();
      last_part_paths_ = static_cast<int64_t>(part.paths.size());
      const Stopwatch running;
      absl::StatusOr<PartOutput> output = runner_.Run(part, job_.outputs);
      result_.times.device_ms += running.ElapsedMs();
      result_.computed_tokens += part.computed_tokens();
      ++result_.parts;
      CANOPY_RETURN_IF_ERROR(output.status());
      CANOPY_RETURN_IF_ERROR(MergePart(*output, RequestPaths(part.paths, path_map), result_));
    }
    return absl::OkStatus();
  }

  int64_t last_part_tokens() const { return last_part_tokens_; }
  int64_t last_part_paths() const { return last_part_paths_; }

 private:
  const ScoreJob& job_;
  ModelRunner& runner_;
  ScoreResult& result_;
  int64_t last_part_tokens_ = 0;
  int64_t last_part_paths_ = 0;
};

// Whether another backend may do what failed with `status`: not where nobody waits any more, the
// device is lost, or it has no memory even for single paths.
bool IsBackendsFault(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsUnimplemented(status) ||
         absl::IsInternal(status);
}

// Plans `batch` and runs it; where the device has no memory for a part, all again in parts of half
// that size, down to single paths. Of the request itself, result.route is the route that was taken,
// also after an error.
absl::StatusOr<RequestPlan> RunHalving(const ScoreJob& job,
                                       const std::shared_ptr<const PathBatch>& batch,
                                       const std::vector<int32_t>& path_map,
                                       const RouteOptions& route, int64_t budget_tokens,
                                       ModelRunner& runner, ScoreResult& result) {
  const int64_t longest = LongestPath(*batch);
  while (true) {
    const Stopwatch planning;
    CANOPY_ASSIGN_OR_RETURN(RequestPlan plan, RequestPlan::Create(batch, route, budget_tokens));
    result.times.plan_ms += planning.ElapsedMs();
    if (path_map.empty()) {
      result.route = plan.route();
    }
    PlanPass pass(job, runner, result);
    const absl::Status status = pass.Run(plan, path_map);
    if (status.ok()) {
      return plan;
    }
    if (!absl::IsResourceExhausted(status)) {
      return status;
    }
    const int64_t smaller = std::max(pass.last_part_tokens() / 2, longest);
    if (pass.last_part_paths() <= 1 || smaller >= budget_tokens) {
      return WithErrorReason(
          absl::ResourceExhaustedError(absl::StrCat("a forward of ", pass.last_part_tokens(),
                                                    " tokens is too large for the device and "
                                                    "cannot be cut further")),
          "PATH_TOO_LARGE_FOR_DEVICE");
    }
    budget_tokens = smaller;
  }
}

// The questions that have a path without finite results, as a batch of their own, and the request's
// path index for each of its paths.
struct Rerun {
  PathBatch batch;
  std::vector<int32_t> path_map;
};

Rerun CollectNonFinite(const PathBatch& batch, const std::vector<uint8_t>& finite) {
  Rerun rerun;
  std::vector<std::vector<int32_t>> suffixes;
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    const int32_t first = batch.question_offsets[question];
    const int32_t last = batch.question_offsets[question + 1];
    if (std::find(finite.begin() + first, finite.begin() + last, 0) == finite.begin() + last) {
      continue;
    }
    suffixes.clear();
    for (int32_t path = first; path < last; ++path) {
      const auto tokens = batch.Tokens(batch.suffixes[path]);
      suffixes.emplace_back(tokens.begin(), tokens.end());
      rerun.path_map.push_back(path);
    }
    rerun.batch.AddQuestion(batch.Tokens(batch.prefixes[question]), suffixes);
  }
  return rerun;
}

bool HasDecision(const ScoreJob& job, const ModelInfo& model) {
  return job.outputs.scores && model.score_head == ScoreHead::kDecision;
}

// The job whose parts are run: a head over whole questions waits for the vectors of all parts.
ScoreJob PartsJob(const ScoreJob& job, const ModelInfo& model) {
  ScoreJob parts = job;
  if (HasDecision(job, model)) {
    parts.outputs.scores = false;
    parts.outputs.endpoints = true;
  }
  return parts;
}

// Scores from the collected endpoint vectors.
absl::Status Decide(const ScoreJob& job, ModelRunner& runner, ScoreResult& result) {
  CANOPY_RETURN_IF_ERROR(CheckWanted(job));
  const Stopwatch running;
  absl::StatusOr<std::vector<float>> scores =
      runner.Decide({result.endpoints, result.finite, job.batch->question_offsets});
  result.times.device_ms += running.ElapsedMs();
  if (absl::IsResourceExhausted(scores.status())) {
    return WithErrorReason(
        absl::ResourceExhaustedError("a question has too many candidates for the device"),
        "QUESTION_TOO_LARGE_FOR_DEVICE");
  }
  CANOPY_RETURN_IF_ERROR(scores.status());
  result.scores = *std::move(scores);
  result.endpoints = {};
  for (size_t path = 0; path < result.scores.size(); ++path) {
    if (!std::isfinite(result.scores[path])) {
      result.finite[path] = 0;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckWanted(const ScoreJob& job) {
  if (job.cancelled != nullptr && job.cancelled()) {
    return absl::CancelledError("the caller is gone");
  }
  if (std::chrono::steady_clock::now() >= job.deadline) {
    return absl::DeadlineExceededError("the deadline passed before the device was free");
  }
  return absl::OkStatus();
}

absl::StatusOr<ScoreResult> RunJob(const ScoreJob& job, const RouteOptions& route,
                                   int64_t max_batch_tokens, ModelRunner& runner) {
  CANOPY_RETURN_IF_ERROR(CheckWanted(job));
  ScoreResult result;
  result.model = runner.info();
  const ScoreJob parts = PartsJob(job, *result.model);
  ReserveResults(parts, result);
  RouteOptions path_by_path = route;
  path_by_path.backend = Backend::kPath;
  absl::StatusOr<RequestPlan> plan =
      RunHalving(parts, job.batch, {}, route, max_batch_tokens, runner, result);
  const bool backend_failed = route.backend == Backend::kAuto &&
                              result.route.backend != Backend::kPath &&
                              IsBackendsFault(plan.status());
  if (backend_failed) {
    plan = RunHalving(parts, job.batch, {}, path_by_path, max_batch_tokens, runner, result);
  }
  CANOPY_RETURN_IF_ERROR(plan.status());
  result.counts = plan->counts();
  if (backend_failed) {
    result.route.reason = Reason::kBackendFailed;
  }

  const bool all_finite =
      std::find(result.finite.begin(), result.finite.end(), 0) == result.finite.end();
  if (!all_finite && result.route.backend != Backend::kPath) {
    Rerun rerun = CollectNonFinite(*job.batch, result.finite);
    CANOPY_RETURN_IF_ERROR(
        RunHalving(parts, std::make_shared<const PathBatch>(std::move(rerun.batch)), rerun.path_map,
                   path_by_path, max_batch_tokens, runner, result)
            .status());
    result.route.reason = Reason::kNonFiniteRerun;
  }
  if (HasDecision(job, *result.model)) {
    CANOPY_RETURN_IF_ERROR(Decide(job, runner, result));
  }
  BlankUnscored(job.outputs, result);
  return result;
}

}  // namespace canopy
