#include "core/engine/job_run.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_details.h"
#include "base/status_macros.h"
#include "base/stopwatch.h"
#include "core/engine/result_merge.h"

namespace canopy {
namespace {

// Returns the token budget of the parts that replace a forward for which the device had too little
// memory.
int64_t SmallerTokens(const Forward& forward, const PathBatch& batch) {
  return std::max(forward.plan.computed_tokens() / 2, batch.LongestPath());
}

// The questions that have a path whose hidden states are not finite.
struct Rerun {
  PathBatch batch;
  std::vector<int32_t> path_map;  // [paths of `batch`] the index of each path in the request
};

bool AllFinite(const ScoreResult& result) {
  const auto all = [](const std::vector<uint8_t>& finite) {
    return std::find(finite.begin(), finite.end(), 0) == finite.end();
  };
  return all(result.finite) && all(result.inner_finite);
}

Rerun CollectNonFinite(const PathBatch& batch, const ScoreResult& result) {
  const auto all = [](const std::vector<uint8_t>& finite, int32_t first, int32_t last) {
    return std::find(finite.begin() + first, finite.begin() + last, 0) == finite.begin() + last;
  };
  Rerun rerun;
  std::vector<std::vector<int32_t>> suffixes;
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    const int32_t first = batch.question_offsets[question];
    const int32_t last = batch.question_offsets[question + 1];
    if (all(result.finite, first, last) && all(result.inner_finite, first, last)) {
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

// Returns whether another backend may succeed where one failed with `status`. That is not so if the
// device is lost, or has too little memory even for single paths.
bool IsBackendsFault(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsUnimplemented(status) ||
         absl::IsInternal(status);
}

}  // namespace

JobRun::JobRun(ScoreJob job, const RouteOptions& route, int64_t max_batch_tokens,
               const ServedModel* served_model)
    : job_(std::move(job)),
      parts_job_(job_),
      max_batch_tokens_(max_batch_tokens),
      served_model_(*served_model) {
  // Replacements of these weights have the same heads.
  result_.model = served_model_.info();
  if (HasDecision()) {
    parts_job_.outputs.scores = false;
    parts_job_.outputs.endpoints = true;
  }
  pass_.batch = job_.batch;
  pass_.route = route;
  pass_.budget_tokens = max_batch_tokens;
  pass_.limit = &served_model_.forward_limit();
  StartPass();
}

void JobRun::Bind(std::shared_ptr<ModelRunner> runner) {
  runner_ = std::move(runner);
  result_.model = runner_->info();
}

bool JobRun::HasDecision() const {
  return job_.outputs.scores && result_.model->score_head == ScoreHead::kDecision;
}

void JobRun::StartPass() { next_pass_ = std::make_shared<Pass>(pass_); }

// Starts a pass whose results replace those of all paths in pass_.batch.
void JobRun::RestartOn(Backend backend) {
  pass_.route.backend = backend;
  pass_.budget_tokens = max_batch_tokens_;
  pass_.limit = &served_model_.forward_limit();
  pass_.done.clear();
  pass_.plan = nullptr;
  pass_.plan_tokens = 0;
  tried_again_.reset();
  StartPass();
}

absl::StatusOr<JobRun::Progress> JobRun::HandleOutput(const Forward& forward, size_t share_index,
                                                      const absl::StatusOr<PartOutput>& output,
                                                      double device_ms) {
  const ForwardShare& share = forward.shares[share_index];
  result_.times.plan_ms += forward.plan_ms;
  result_.times.device_ms += device_ms;
  result_.computed_tokens += share.computed_tokens;
  ++result_.parts;
  result_.batch_requests =
      std::max(result_.batch_requests, static_cast<int32_t>(forward.shares.size()));
  if (absl::IsResourceExhausted(output.status())) {
    return RunSmaller(forward, share_index);
  }
  if (IsBackendsFault(output.status()) && pass_.route.backend == Backend::kAuto &&
      share.route.backend != Backend::kPath) {
    backend_failed_ = true;
    RestartOn(Backend::kPath);
    return Progress::kAgain;
  }
  CANOPY_RETURN_IF_ERROR(output.status());
  CANOPY_RETURN_IF_ERROR(CheckPart(*output, static_cast<int64_t>(forward.plan.paths.size()),
                                   parts_job_.outputs, *result_.model));
  if (result_.finite.empty()) {
    ReserveResults(parts_job_, result_);
  }
  CANOPY_RETURN_IF_ERROR(MergePart(*output, share.first_row, share.job_paths, result_));
  pass_.done.resize(result_.finite.size());
  for (const int32_t path : share.job_paths) {
    pass_.done[path] = 1;
  }
  return share.parts_left > 0 ? Progress::kMoreParts : EndPass(share);
}

absl::StatusOr<JobRun::Progress> JobRun::RunSmaller(const Forward& forward, size_t share_index) {
  out_of_memory_ = true;
  const ForwardShare& share = forward.shares[share_index];
  const bool is_smallest = !CanRunSmaller(forward, share_index);
  if (is_smallest && tried_again_ == share.job_paths.front()) {
    return ErrorFor(ErrorReason::kPathTooLargeForDevice,
                    absl::StrCat("a forward of ", forward.plan.computed_tokens(),
                                 " tokens is too large for the device and cannot be cut further"));
  }
  if (is_smallest) {
    // Memory may have been short for a moment only, and nothing smaller is left to try.
    tried_again_ = share.job_paths.front();
  } else if (forward.shares.size() == 1) {
    // The learned limit is at most this size now. The pass keeps the size as its own budget,
    // because other forwards may raise the limit and new weights remove it.
    pass_.budget_tokens = SmallerTokens(forward, *pass_.batch);
  }
  // If other jobs shared the failed forward, this job alone is smaller. It is then tried as a
  // whole, without the learned limit.
  pass_.limit = forward.shares.size() > 1 ? nullptr : &served_model_.forward_limit();
  if (forward.shares.size() == 1) {
    pass_.plan = share.plan;
    pass_.plan_tokens = share.budget_tokens;
  }
  StartPass();
  return Progress::kAgain;
}

bool JobRun::CanRunSmaller(const Forward& forward, size_t share_index) const {
  const ForwardShare& share = forward.shares[share_index];
  return forward.shares.size() > 1 ||
         (share.job_paths.size() > 1 && SmallerTokens(forward, *pass_.batch) < share.budget_tokens);
}

absl::StatusOr<JobRun::Progress> JobRun::EndPass(const ForwardShare& share) {
  if (!reruns_non_finite_) {
    result_.counts = share.counts;
    result_.route = share.route;
    if (out_of_memory_) {
      result_.route.reason = Reason::kOutOfMemory;
    }
    if (backend_failed_) {
      result_.route.reason = Reason::kBackendFailed;
    }
    // Only hidden states that are not finite are worth a rerun; other outputs would be the same
    // again.
    if (!AllFinite(result_) && share.route.backend != Backend::kPath) {
      reruns_non_finite_ = true;
      result_.route.reason = Reason::kNonFiniteRerun;
      Rerun rerun = CollectNonFinite(*job_.batch, result_);
      pass_.batch = std::make_shared<const PathBatch>(std::move(rerun.batch));
      pass_.path_map = std::move(rerun.path_map);
      RestartOn(Backend::kPath);
      return Progress::kAgain;
    }
  }
  if (HasDecision()) {
    CANOPY_RETURN_IF_ERROR(Decide());
  }
  BlankUnscored(job_.outputs, result_);
  return Progress::kDone;
}

// Computes scores from the collected endpoint vectors.
absl::Status JobRun::Decide() {
  const Stopwatch running;
  absl::StatusOr<std::vector<float>> scores =
      runner_->Decide({result_.endpoints, result_.finite, job_.batch->question_offsets});
  result_.times.device_ms += running.ElapsedMs();
  if (absl::IsResourceExhausted(scores.status())) {
    return ErrorFor(ErrorReason::kQuestionTooLargeForDevice,
                    "a question has too many candidates for the device");
  }
  CANOPY_RETURN_IF_ERROR(scores.status());
  if (scores->size() != result_.finite.size()) {
    return absl::InternalError(absl::StrCat("the runner's decision scores have size ",
                                            scores->size(), " instead of ", result_.finite.size()));
  }
  result_.scores = *std::move(scores);
  result_.endpoints = {};
  for (size_t path = 0; path < result_.scores.size(); ++path) {
    if (!std::isfinite(result_.scores[path])) {
      result_.unscored[path] |= BitOf(Output::kScores);
    }
  }
  return absl::OkStatus();
}

}  // namespace canopy
