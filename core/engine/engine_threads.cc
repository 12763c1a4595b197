// The engine's planning thread and device thread: they build and run the forwards that
// ForwardStates hands out, and report what became of them.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/logging.h"
#include "base/stopwatch.h"
#include "core/engine/engine.h"
#include "core/engine/engine_errors.h"
#include "core/engine/forward_limit.h"

namespace canopy {
namespace {

TimePoint Now() { return std::chrono::steady_clock::now(); }

// Returns true if a forward of this size failed before.
bool IsTooLarge(const Forward& forward, const ForwardLimit& limit) {
  return limit.tokens() <= forward.plan.computed_tokens() / 2;
}

// Jobs that share a forward are answered by one version of the weights. Jobs that were launched
// before keep theirs.
void BindWeights(const PlannedForward& planned) {
  const std::shared_ptr<ModelRunner> runner = planned.jobs.front()->run->served_model().runner();
  for (const std::shared_ptr<AdmittedJob>& job : planned.jobs) {
    if (!job->launched) {
      job->run->Bind(runner);
    }
  }
}

absl::Status BuildForward(PlannedForward* planned) {
  absl::StatusOr<Forward> forward = planned->passes.size() > 1
                                        ? PlanShared(planned->passes)
                                        : PlanNextPart(*planned->passes.front());
  if (!forward.ok()) {
    return std::move(forward).status();
  }
  planned->forward = *std::move(forward);
  planned->built = true;
  return absl::OkStatus();
}

// Logs an event that the states do not permit, which is a bug.
void CheckPermitted(bool permitted, const char* event) {
  if (!permitted) {
    LogError("event_not_permitted", {{"event", event}});
  }
}

}  // namespace

void Engine::PlanLoop() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      mutex_.Await(Condition(
          +[](Engine* engine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine->mutex_) {
            return engine->stopping_ || engine->states_.CanPlanAhead();
          },
          this));
      if (stopping_) {
        return;
      }
    }
    PlanNext();
  }
}

void Engine::PlanNext() {
  std::vector<Ended> ended;
  std::unique_ptr<PlannedForward> planned;
  {
    MutexLock lock(&mutex_);
    ForwardStates::Jobs expired;
    planned = states_.StartPlanning(Now(), &expired);
    EndExpired(std::move(expired), &ended);
    SetAlarm();
    if (planned != nullptr && !planned->built) {
      BindWeights(*planned);
    }
  }
  Deliver(std::move(ended));
  if (planned == nullptr) {
    return;
  }
  const absl::Status built = planned->built ? absl::OkStatus() : BuildForward(planned.get());
  std::vector<Ended> failed;
  {
    MutexLock lock(&mutex_);
    if (built.ok()) {
      CheckPermitted(states_.EndPlanning(std::move(planned)), "EndPlanning");
    } else {
      for (std::shared_ptr<AdmittedJob>& job : states_.FailPlanning(std::move(planned))) {
        failed.push_back({std::move(job), built});
        ++delivering_;
      }
    }
  }
  Deliver(std::move(failed));
}

void Engine::DeviceLoop() {
  while (true) {
    ForwardStates::Step step = ForwardStates::Step::kWait;
    {
      MutexLock lock(&mutex_);
      mutex_.Await(Condition(
          +[](Engine* engine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine->mutex_) {
            return engine->stopping_ || engine->HasStep();
          },
          this));
      step = states_.NextStep(!device_work_.empty());
    }
    switch (step) {
      case ForwardStates::Step::kWait:
        return;  // the engine stops
      case ForwardStates::Step::kPlan:
        PlanNext();
        break;
      case ForwardStates::Step::kLaunch:
        LaunchNext();
        break;
      case ForwardStates::Step::kWork:
        RunWork();
        break;
    }
  }
}

void Engine::RunWork() {
  DeviceWork* work = nullptr;
  {
    MutexLock lock(&mutex_);
    // A drain may have refused the work meanwhile.
    if (device_work_.empty() || !states_.StartWork()) {
      return;
    }
    work = device_work_.front();
    device_work_.pop_front();
  }
  absl::Status status = healthy() ? work->run() : UnhealthyError();
  UpdateHealth(status);
  MutexLock lock(&mutex_);
  work->status = std::move(status);
  work->done = true;
  CheckPermitted(states_.FinishWork(), "FinishWork");
}

void Engine::LaunchNext() {
  std::vector<Ended> ended;
  std::unique_ptr<PlannedForward> planned;
  {
    MutexLock lock(&mutex_);
    ForwardStates::Jobs expired;
    planned = states_.Launch(Now(), &expired);
    EndExpired(std::move(expired), &ended);
  }
  Deliver(std::move(ended));
  if (planned == nullptr) {
    return;
  }
  Run(planned.get());
  // A drain also waits for the memory that the jobs hold.
  planned->jobs.clear();
  MutexLock lock(&mutex_);
  CheckPermitted(states_.Finish(), "Finish");
}

void Engine::Run(PlannedForward* planned) {
  JobRun& first = *planned->jobs.front()->run;
  const Forward& forward = planned->forward;
  if (IsTooLarge(forward, first.served_model().forward_limit()) &&
      first.CanRunSmaller(forward, 0)) {
    RunSmaller(planned);
    return;
  }
  const Stopwatch running;
  const absl::StatusOr<PartOutput> output =
      healthy() ? first.runner().Run(forward.plan, first.part_outputs())
                : absl::StatusOr<PartOutput>(UnhealthyError());
  const double device_ms = running.ElapsedMs();
  UpdateHealth(output.status());
  UpdateForwardLimit(*planned, output.status());
  const std::chrono::duration<double> duration(device_ms / 1000);
  if (options_.on_forward) {
    options_.on_forward({static_cast<int64_t>(planned->jobs.size()),
                         std::max<int64_t>(forward.plan.computed_tokens(), 1), duration.count()});
  }
  {
    MutexLock lock(&mutex_);
    ++stats_.forwards;
    stats_.device_seconds += duration.count();
    stats_.out_of_memory_forwards += absl::IsResourceExhausted(output.status()) ? 1 : 0;
    if (output.ok()) {
      states_.RecordForward(planned->batch, duration);
    }
  }
  HandleOutput(*planned, output, device_ms);
}

void Engine::HandleOutput(const PlannedForward& planned, const absl::StatusOr<PartOutput>& output,
                          double device_ms) {
  const Forward& forward = planned.forward;
  const int64_t computed_tokens = std::max<int64_t>(forward.plan.computed_tokens(), 1);
  for (size_t i = 0; i < planned.jobs.size(); ++i) {
    AdmittedJob& job = *planned.jobs[i];
    const double seconds = device_ms / 1000 *
                           static_cast<double>(forward.shares[i].computed_tokens) /
                           static_cast<double>(computed_tokens);
    {
      MutexLock lock(&mutex_);
      if (!states_.HasJob(job.id)) {
        stats_.wasted_device_seconds += seconds;
        continue;
      }
      job.device_seconds += seconds;
    }
    absl::StatusOr<JobRun::Progress> progress =
        job.run->HandleOutput(forward, i, output, device_ms);
    UpdateHealth(progress.status());
    AnswerOrContinue(job, std::move(progress));
  }
}

// Cuts the jobs of a forward again without running it, because a smaller forward failed after it
// was planned.
void Engine::RunSmaller(PlannedForward* planned) {
  for (size_t i = 0; i < planned->jobs.size(); ++i) {
    AdmittedJob& job = *planned->jobs[i];
    absl::StatusOr<JobRun::Progress> progress = job.run->RunSmaller(planned->forward, i);
    AnswerOrContinue(job, std::move(progress));
  }
}

// Answers a job after its forward, or lets it run again.
void Engine::AnswerOrContinue(const AdmittedJob& job, absl::StatusOr<JobRun::Progress> progress) {
  std::vector<Ended> ended;
  std::optional<Route> answered;
  {
    MutexLock lock(&mutex_);
    answered = Advance(job, std::move(progress), &ended);
  }
  Deliver(std::move(ended));
  if (answered.has_value()) {
    LogFallbackOnce(*answered);
  }
}

// Returns the route of a job that ends with a result.
std::optional<Route> Engine::Advance(const AdmittedJob& job,
                                     absl::StatusOr<JobRun::Progress> progress,
                                     std::vector<Ended>* ended) {
  if (!states_.HasJob(job.id)) {
    return std::nullopt;
  }
  if (!progress.ok()) {
    EndAnswered(job.id, std::move(progress).status(), ended);
    return std::nullopt;
  }
  switch (*progress) {
    case JobRun::Progress::kMoreParts:
      break;
    case JobRun::Progress::kAgain:
      CheckPermitted(states_.Restart(job.id, job.run->TakePass()), "Restart");
      break;
    case JobRun::Progress::kDone: {
      ScoreResult result = job.run->TakeResult();
      const Route route = result.route;
      EndAnswered(job.id, std::move(result), ended);
      return route;
    }
  }
  return std::nullopt;
}

// Learns from each forward how large the next ones may be, and logs each time that this falls. A
// forward on weights that were replaced says nothing about the weights that serve now.
void Engine::UpdateForwardLimit(const PlannedForward& planned, const absl::Status& status) {
  const JobRun& first = *planned.jobs.front()->run;
  if (first.served_model().runner().get() != &first.runner()) {
    return;
  }
  const TreePlan& plan = planned.forward.plan;
  ForwardLimit& limit = first.served_model().forward_limit();
  if (status.ok()) {
    limit.RecordSuccess(plan.computed_tokens());
  } else if (absl::IsResourceExhausted(status) && limit.RecordFailure(plan.computed_tokens())) {
    LogWarning("forward_out_of_memory", {{"model", first.served_model().name()},
                                         {"backend", BackendName(plan.backend)},
                                         {"requests", static_cast<int64_t>(planned.jobs.size())},
                                         {"tokens", plan.computed_tokens()},
                                         {"next_max_tokens", limit.tokens()},
                                         {"error", std::string(status.message())}});
  }
}

void Engine::UpdateHealth(const absl::Status& status) {
  if (absl::IsUnavailable(status) && healthy_.exchange(false)) {
    LogError("device_lost", {{"error", std::string(status.message())}});
  }
}

void Engine::LogFallbackOnce(const Route& route) {
  if (!RowOf(kReasons, route.reason).is_fallback) {
    return;
  }
  if (logged_reasons_.insert(route.reason).second) {
    LogWarning("route_fallback",
               {{"backend", BackendName(route.backend)}, {"reason", ReasonName(route.reason)}});
  }
}

}  // namespace canopy
