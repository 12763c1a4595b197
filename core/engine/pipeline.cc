#include "core/engine/pipeline.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_details.h"
#include "core/engine/pipeline_state.h"

namespace canopy {
namespace {

TimePoint Now() { return std::chrono::steady_clock::now(); }

absl::Status DeadlineError() {
  return absl::DeadlineExceededError("the deadline passed before the answer was there");
}

absl::Status DrainingError() { return ErrorFor(ErrorReason::kDraining, "draining"); }

absl::Status RefusalError(Refusal refusal, const JobRequest& request, const Scheduler& scheduler,
                          const Scheduler::Options& options) {
  switch (refusal) {
    case Refusal::kQueuedRequests:
      return ErrorFor(ErrorReason::kQueueFull,
                      absl::StrCat("queue full: ",
                                   scheduler.queued_requests(Priority::kNormal) +
                                       scheduler.queued_requests(Priority::kLow),
                                   " requests wait, limit ", options.max_queued_requests));
    case Refusal::kQueuedTokens:
      return ErrorFor(
          ErrorReason::kQueueTokensFull,
          absl::StrCat("queue full: ", scheduler.queued_tokens(), " computed tokens wait, and ",
                       request.tokens, " more exceed the limit ", options.max_queued_tokens));
    case Refusal::kDeadline:
      return ErrorFor(
          ErrorReason::kDeadlineTooShort,
          absl::StrCat("too busy: ", scheduler.queued_tokens(),
                       " computed tokens wait, and the request's deadline would pass among them"));
  }
  return absl::InternalError("an unknown refusal");
}

}  // namespace

absl::Status UnhealthyError() {
  return ErrorFor(ErrorReason::kDeviceLost, "the device was lost; this server must be restarted");
}

Pipeline::Pipeline(const Scheduler::Options& options, ForwardObserver observer)
    : options_(options),
      observer_(std::move(observer)),
      scheduler_(options),
      alarm_([this] { Ring(); }),
      planning_thread_([this] { PlanLoop(); }),
      device_thread_([this] { DeviceLoop(); }) {}

Pipeline::~Pipeline() {
  Drain();
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  device_thread_.join();
  planning_thread_.join();
}

absl::Status Pipeline::Submit(const JobRequest& request, std::unique_ptr<JobRun> run,
                              Callback done) {
  const TimePoint now = Now();
  if (request.deadline <= now) {
    return DeadlineError();
  }
  const JobId id = request.id;
  std::shared_ptr<Pass> pass = run->TakePass();
  const std::shared_ptr<Job> job(new Job{id, std::move(run), std::move(done), Stopwatch(),
                                         std::move(pass), nullptr, 0, false});
  std::vector<Ended> ended;
  {
    MutexLock lock(&mutex_);
    if (draining_) {
      ++stats_.refused_draining;
      return DrainingError();
    }
    const Scheduler::Admission admission = scheduler_.Admit(request, now);
    const absl::Duration delay = absl::FromChrono(admission.retry_delay);
    if (admission.refusal.has_value()) {
      return WithRetryAfter(RefusalError(*admission.refusal, request, scheduler_, options_), delay);
    }
    if (admission.displaced.has_value()) {
      EndEarly(*admission.displaced,
               WithRetryAfter(ErrorFor(ErrorReason::kDisplaced,
                                       "queue full: the place went to a client with fewer requests "
                                       "or a request of higher priority"),
                              delay),
               &ended);
    }
    jobs_.emplace(id, job);
    plan_wanted_ = true;
    if (MayRevise() && scheduler_.WouldChange(*pending_, id)) {
      revise_ = true;
    }
    SetAlarm();
  }
  Deliver(std::move(ended));
  return absl::OkStatus();
}

void Pipeline::Cancel(JobId id) {
  std::vector<Ended> ended;
  {
    MutexLock lock(&mutex_);
    // The call of a passed deadline is cancelled too.
    ExpireJobs(&ended);
    if (scheduler_.Cancel(id)) {
      EndEarly(id, absl::CancelledError("the caller is gone"), &ended);
    }
  }
  Deliver(std::move(ended));
}

absl::Status Pipeline::RunOnDevice(const std::function<absl::Status()>& work) {
  DeviceWork own{work, absl::OkStatus()};
  MutexLock lock(&mutex_);
  if (draining_) {
    return DrainingError();
  }
  device_work_.push_back(&own);
  mutex_.Await(Condition(&own.done));
  return own.status;
}

void Pipeline::Drain() {
  MutexLock lock(&mutex_);
  draining_ = true;
  for (; !device_work_.empty(); device_work_.pop_front()) {
    device_work_.front()->status = DrainingError();
    device_work_.front()->done = true;
  }
  mutex_.Await(Condition(
      +[](Pipeline* pipeline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(pipeline->mutex_) {
        return pipeline->jobs_.empty() && !pipeline->running_ && pipeline->delivering_ == 0;
      },
      this));
}

EngineStats Pipeline::stats() const {
  MutexLock lock(&mutex_);
  EngineStats stats = stats_;
  stats.queued_normal = scheduler_.queued_requests(Priority::kNormal);
  stats.queued_low = scheduler_.queued_requests(Priority::kLow);
  stats.queued_tokens = scheduler_.queued_tokens();
  const Scheduler::Totals& totals = scheduler_.totals();
  stats.accepted = totals.accepted;
  stats.answered = totals.answered;
  stats.displaced = totals.displaced;
  stats.expired = totals.expired;
  stats.cancelled = totals.cancelled;
  stats.refused_queued_requests = totals.refused[static_cast<size_t>(Refusal::kQueuedRequests)];
  stats.refused_queued_tokens = totals.refused[static_cast<size_t>(Refusal::kQueuedTokens)];
  stats.refused_deadline = totals.refused[static_cast<size_t>(Refusal::kDeadline)];
  return stats;
}

void Pipeline::EndEarly(JobId id, absl::Status status, std::vector<Ended>* ended) {
  const auto job = jobs_.find(id);
  stats_.wasted_device_seconds += job->second->device_seconds;
  job->second->prepared = nullptr;
  revise_ = revise_ || MayRevise();
  ended->push_back({std::move(job->second), std::move(status)});
  jobs_.erase(job);
  ++delivering_;
}

void Pipeline::End(JobId id, absl::StatusOr<ScoreResult> result, std::vector<Ended>* ended) {
  const auto job = jobs_.find(id);
  if (result.ok()) {
    StageTimes& times = result->times;
    times.queue_ms =
        std::max(0.0, job->second->waiting.ElapsedMs() - times.plan_ms - times.device_ms);
  }
  scheduler_.Finish(id);
  job->second->prepared = nullptr;
  ended->push_back({std::move(job->second), std::move(result)});
  jobs_.erase(job);
  ++delivering_;
}

void Pipeline::ExpireJobs(std::vector<Ended>* ended) {
  for (const JobId id : scheduler_.Expire(Now())) {
    EndEarly(id, DeadlineError(), ended);
  }
}

void Pipeline::SetAlarm() {
  const TimePoint at = std::min(scheduler_.next_deadline(), scheduler_.held_until());
  if (at < alarm_at_) {
    alarm_at_ = at;
    alarm_.SetAt(at);
  }
}

void Pipeline::Ring() {
  std::vector<Ended> ended;
  {
    MutexLock lock(&mutex_);
    alarm_at_ = TimePoint::max();
    plan_wanted_ = true;
    ExpireJobs(&ended);
    SetAlarm();
  }
  Deliver(std::move(ended));
}

void Pipeline::Deliver(std::vector<Ended> ended) {
  if (ended.empty()) {
    return;
  }
  for (Ended& answer : ended) {
    answer.job->done(std::move(answer.result));
  }
  const auto delivered = static_cast<int64_t>(ended.size());
  // Who waits for the drain also waits for what the jobs held.
  ended.clear();
  MutexLock lock(&mutex_);
  delivering_ -= delivered;
}

}  // namespace canopy
