// The device thread: forwards, what they leave for their jobs, and other work between them.
#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "base/logging.h"
#include "base/stopwatch.h"
#include "core/engine/forward_limit.h"
#include "core/engine/pipeline.h"
#include "core/engine/pipeline_state.h"

namespace canopy {
namespace {

// Waking the planning thread takes about as long as planning a small forward.
constexpr auto kWorthPlanningAhead = std::chrono::microseconds(100);

// Whether a forward of this size failed before.
bool IsTooLarge(const Forward& forward, const ForwardLimit& limit) {
  return limit.tokens() <= forward.plan.computed_tokens() / 2;
}

}  // namespace

void Pipeline::DeviceLoop() {
  while (const std::unique_ptr<Planned> planned = NextForward()) {
    Run(planned.get());
  }
}

// Nothing once the pipeline stops.
std::unique_ptr<Pipeline::Planned> Pipeline::NextForward() {
  while (true) {
    std::vector<Ended> ended;
    std::unique_ptr<Planned> planned;
    DeviceWork* work = nullptr;
    bool should_plan = false;
    {
      MutexLock lock(&mutex_);
      device_idle_ = true;
      plan_ahead_ = false;
      mutex_.Await(Condition(
          +[](Pipeline* pipeline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(pipeline->mutex_) {
            return pipeline->stopping_ || pipeline->HasForward() || pipeline->ShouldPlan() ||
                   !pipeline->device_work_.empty();
          },
          this));
      work = TakeWork();
      if (work == nullptr && HasForward()) {
        planned = Launch(&ended);
      } else if (work == nullptr) {
        should_plan = ShouldPlan();
        if (!should_plan) {
          return nullptr;
        }
      }
    }
    if (work != nullptr) {
      RunWork(work);
    }
    if (should_plan) {
      PlanTurn();
    }
    Deliver(std::move(ended));
    if (planned != nullptr) {
      return planned;
    }
  }
}

// The forward that waits, or null where somebody does not want it any more.
std::unique_ptr<Pipeline::Planned> Pipeline::Launch(std::vector<Ended>* ended) {
  work_had_last_ = false;
  ExpireJobs(ended);
  std::unique_ptr<Planned> planned = std::move(planned_);
  if (!IsCurrent(*planned)) {
    // Those that somebody still waits for are planned again without the others.
    ReturnTurn(planned->turn);
    return nullptr;
  }
  scheduler_.Launch(planned->turn);
  for (const std::shared_ptr<Job>& job : planned->jobs) {
    job->launched = true;
  }
  pending_.reset();
  revise_ = false;
  plan_wanted_ = true;
  device_idle_ = false;
  plan_ahead_ = scheduler_.Forecast(planned->turn.tokens) >= kWorthPlanningAhead;
  running_ = true;
  return planned;
}

// Work and forwards that both wait take turns. Null = no work, or it is a forward's turn.
Pipeline::DeviceWork* Pipeline::TakeWork() {
  if (device_work_.empty() || (work_had_last_ && HasForward())) {
    return nullptr;
  }
  DeviceWork* work = device_work_.front();
  device_work_.pop_front();
  work_had_last_ = true;
  device_idle_ = false;
  plan_ahead_ = true;
  return work;
}

void Pipeline::RunWork(DeviceWork* work) {
  absl::Status status = healthy() ? work->run() : UnhealthyError();
  NoteHealth(status);
  MutexLock lock(&mutex_);
  work->status = std::move(status);
  work->done = true;
}

void Pipeline::Run(Planned* planned) {
  JobRun& first = *planned->jobs.front()->run;
  const Forward& forward = planned->forward;
  if (IsTooLarge(forward, first.slot().forward_limit()) && first.CanRunSmaller(forward, 0)) {
    RunSmaller(planned);
    return;
  }
  const Stopwatch running;
  const absl::StatusOr<PartOutput> output =
      healthy() ? first.runner().Run(forward.plan, first.part_outputs())
                : absl::StatusOr<PartOutput>(UnhealthyError());
  const double device_ms = running.ElapsedMs();
  NoteHealth(output.status());
  NoteMemory(*planned, output.status());
  const std::chrono::duration<double> duration(device_ms / 1000);
  const int64_t computed_tokens = std::max<int64_t>(forward.plan.computed_tokens(), 1);
  if (observer_) {
    observer_({static_cast<int64_t>(planned->jobs.size()), computed_tokens, duration.count()});
  }
  {
    MutexLock lock(&mutex_);
    ++stats_.forwards;
    stats_.device_seconds += duration.count();
    stats_.out_of_memory_forwards += absl::IsResourceExhausted(output.status()) ? 1 : 0;
    if (output.ok()) {
      scheduler_.RecordForward(planned->turn, duration);
    }
  }
  for (size_t i = 0; i < planned->jobs.size(); ++i) {
    Job& job = *planned->jobs[i];
    const double seconds = duration.count() *
                           static_cast<double>(forward.shares[i].computed_tokens) /
                           static_cast<double>(computed_tokens);
    {
      MutexLock lock(&mutex_);
      if (!jobs_.contains(job.id)) {
        stats_.wasted_device_seconds += seconds;
        continue;
      }
      job.device_seconds += seconds;
    }
    absl::StatusOr<JobRun::Progress> progress = job.run->Absorb(forward, i, output, device_ms);
    NoteHealth(progress.status());
    Conclude(job, std::move(progress));
  }
  planned->jobs.clear();
  MutexLock lock(&mutex_);
  running_ = false;
}

void Pipeline::Conclude(const Job& job, absl::StatusOr<JobRun::Progress> progress) {
  std::vector<Ended> ended;
  std::optional<Route> answered;
  {
    MutexLock lock(&mutex_);
    answered = Settle(job, std::move(progress), &ended);
  }
  Deliver(std::move(ended));
  if (answered.has_value()) {
    LogFallbackOnce(*answered);
  }
}

// It was planned before a larger one failed: its jobs are cut again without trying it.
void Pipeline::RunSmaller(Planned* planned) {
  for (size_t i = 0; i < planned->jobs.size(); ++i) {
    Job& job = *planned->jobs[i];
    absl::StatusOr<JobRun::Progress> progress = job.run->RunSmaller(planned->forward, i);
    Conclude(job, std::move(progress));
  }
  planned->jobs.clear();
  MutexLock lock(&mutex_);
  running_ = false;
}

// Learns from each forward how large the next ones may be, and logs each time that this falls. A
// forward on weights that were replaced says nothing about the weights that serve now.
void Pipeline::NoteMemory(const Planned& planned, const absl::Status& status) {
  const JobRun& first = *planned.jobs.front()->run;
  if (first.slot().runner().get() != &first.runner()) {
    return;
  }
  const TreePlan& plan = planned.forward.plan;
  ForwardLimit& limit = first.slot().forward_limit();
  if (status.ok()) {
    limit.RecordFit(plan.computed_tokens());
  } else if (absl::IsResourceExhausted(status) && limit.RecordFailure(plan.computed_tokens())) {
    LogWarning("forward_out_of_memory", {{"model", first.slot().name()},
                                         {"backend", BackendName(plan.backend)},
                                         {"requests", static_cast<int64_t>(planned.jobs.size())},
                                         {"tokens", plan.computed_tokens()},
                                         {"next_max_tokens", limit.tokens()},
                                         {"error", std::string(status.message())}});
  }
}

std::optional<Route> Pipeline::Settle(const Job& job, absl::StatusOr<JobRun::Progress> progress,
                                      std::vector<Ended>* ended) {
  if (!jobs_.contains(job.id)) {
    return std::nullopt;
  }
  if (!progress.ok()) {
    End(job.id, std::move(progress).status(), ended);
    return std::nullopt;
  }
  switch (*progress) {
    case JobRun::Progress::kMoreParts:
      break;
    case JobRun::Progress::kAgain:
      Restart(job.id, job.run->TakePass());
      break;
    case JobRun::Progress::kDone: {
      ScoreResult result = job.run->TakeResult();
      const Route route = result.route;
      End(job.id, std::move(result), ended);
      return route;
    }
  }
  return std::nullopt;
}

void Pipeline::Restart(JobId id, std::shared_ptr<Pass> pass) {
  Job& job = *jobs_.at(id);
  job.pass = std::move(pass);
  job.prepared = nullptr;
  // A part of the pass before may be planned already.
  if (planned_ != nullptr && !IsCurrent(*planned_)) {
    const std::unique_ptr<Planned> stale = std::move(planned_);
    ReturnTurn(stale->turn);
  }
  if (!scheduler_.IsWaiting(id)) {
    // The first part of the new pass is planned later; until then it counts as a full one.
    const Pass& next = *job.pass;
    const int64_t part_tokens = next.limit == nullptr
                                    ? next.budget_tokens
                                    : std::min(next.budget_tokens, next.limit->tokens());
    scheduler_.Continue(id, std::max<int64_t>(next.batch->tokens.size(), 1), part_tokens);
  }
  plan_wanted_ = true;
}

void Pipeline::NoteHealth(const absl::Status& status) {
  if (absl::IsUnavailable(status) && healthy_.exchange(false)) {
    LogError("device_lost", {{"error", std::string(status.message())}});
  }
}

void Pipeline::LogFallbackOnce(const Route& route) {
  if (!RowOf(kReasons, route.reason).is_fallback) {
    return;
  }
  if (logged_reasons_.insert(route.reason).second) {
    LogWarning("route_fallback",
               {{"backend", BackendName(route.backend)}, {"reason", ReasonName(route.reason)}});
  }
}

}  // namespace canopy
