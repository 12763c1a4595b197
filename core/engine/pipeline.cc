#include "core/engine/pipeline.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/logging.h"
#include "core/base/status_details.h"
#include "core/base/stopwatch.h"

namespace canopy {
namespace {

TimePoint Now() { return std::chrono::steady_clock::now(); }

absl::Status DeadlineError() {
  return absl::DeadlineExceededError("the deadline passed before the answer was there");
}

absl::Status DrainingError() {
  return WithErrorReason(absl::UnavailableError("draining"), "DRAINING");
}

absl::Status RefusalError(Refusal refusal, const JobRequest& request, const Scheduler& scheduler,
                          const Scheduler::Options& options) {
  switch (refusal) {
    case Refusal::kQueuedRequests:
      return WithErrorReason(absl::ResourceExhaustedError(absl::StrCat(
                                 "queue full: ",
                                 scheduler.queued_requests(Priority::kNormal) +
                                     scheduler.queued_requests(Priority::kLow),
                                 " requests wait, limit ", options.max_queued_requests)),
                             "QUEUE_FULL");
    case Refusal::kQueuedTokens:
      return WithErrorReason(
          absl::ResourceExhaustedError(absl::StrCat(
              "queue full: ", scheduler.queued_tokens(), " tokens wait, and ", request.input_tokens,
              " more exceed the limit ", options.max_queued_tokens)),
          "QUEUE_TOKENS_FULL");
    case Refusal::kDeadline:
      return WithErrorReason(absl::ResourceExhaustedError(absl::StrCat(
                                 "too busy: ", scheduler.queued_tokens(),
                                 " tokens wait, and the request's deadline would pass among them")),
                             "DEADLINE_TOO_SHORT");
  }
  return absl::InternalError("an unknown refusal");
}

}  // namespace

absl::Status UnhealthyError() {
  return WithErrorReason(
      absl::UnavailableError("the device was lost; this server must be restarted"), "DEVICE_LOST");
}

struct Pipeline::Job {
  const JobId id;
  const std::unique_ptr<JobRun> run;
  const Callback done;
  const Stopwatch waiting;
  // Guarded by the pipeline's mutex, but for what the planning thread builds in a pass.
  std::shared_ptr<Pass> pass;
  std::unique_ptr<Planned> prepared;  // its next part, when a smaller job went before it
  double device_seconds = 0;
  bool launched = false;  // a forward of it was: its weights stay
};

struct Pipeline::Planned {
  Turn turn;
  std::vector<std::shared_ptr<Job>> jobs;
  std::vector<std::shared_ptr<Pass>> passes;  // of each job when it was taken
  Forward forward;
  bool built = false;
};

// Belongs to the thread that waits for it.
struct Pipeline::DeviceWork {
  const std::function<absl::Status()>& run;
  absl::Status status;
  bool done = false;  // guarded by the pipeline's mutex
};

struct Pipeline::Ended {
  std::shared_ptr<Job> job;
  absl::StatusOr<ScoreResult> result;
};

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
               WithErrorReason(
                   WithRetryAfter(absl::ResourceExhaustedError(
                                      "queue full: the place went to a client with fewer requests "
                                      "or a request of higher priority"),
                                  delay),
                   "DISPLACED"),
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

bool Pipeline::ShouldPlan() const {
  return stopping_ || (plan_wanted_ && !pending_.has_value()) || (revise_ && planned_ != nullptr);
}

void Pipeline::PlanLoop() {
  while (true) {
    std::vector<Ended> ended;
    std::unique_ptr<Planned> planned;
    {
      MutexLock lock(&mutex_);
      mutex_.Await(Condition(this, &Pipeline::ShouldPlan));
      if (stopping_) {
        return;
      }
      planned = TakeTurn(&ended);
    }
    Deliver(std::move(ended));
    if (planned == nullptr) {
      continue;
    }
    const absl::Status built = planned->built ? absl::OkStatus() : BuildForward(planned.get());
    std::vector<Ended> failed;
    {
      MutexLock lock(&mutex_);
      if (built.ok()) {
        Place(std::move(planned));
      } else {
        EndFailed(*planned, built, &failed);
      }
    }
    Deliver(std::move(failed));
  }
}

std::unique_ptr<Pipeline::Planned> Pipeline::TakeTurn(std::vector<Ended>* ended) {
  ExpireJobs(ended);
  std::unique_ptr<Planned> before = std::move(planned_);
  if (before != nullptr) {
    ReturnTurn(before->turn);
  }
  revise_ = false;
  std::optional<Turn> turn = scheduler_.Take(Now());
  SetAlarm();
  plan_wanted_ = turn.has_value();
  if (before != nullptr && turn.has_value() && turn->jobs == before->turn.jobs) {
    pending_ = *turn;
    before->turn = *std::move(turn);
    return before;
  }
  if (before != nullptr && before->jobs.size() == 1 && IsCurrent(*before)) {
    const std::shared_ptr<Job> job = before->jobs.front();
    job->prepared = std::move(before);
  }
  if (!turn.has_value()) {
    return nullptr;
  }
  pending_ = *turn;
  if (turn->jobs.size() == 1) {
    std::unique_ptr<Planned> prepared = std::move(jobs_.at(turn->jobs.front())->prepared);
    if (prepared != nullptr && IsCurrent(*prepared)) {
      prepared->turn = *std::move(turn);
      return prepared;
    }
  }
  auto planned = std::make_unique<Planned>();
  // One version for all that share the forward.
  const std::shared_ptr<ModelRunner> runner = jobs_.at(turn->jobs.front())->run->slot().runner();
  for (const JobId id : turn->jobs) {
    const std::shared_ptr<Job>& job = jobs_.at(id);
    if (!job->launched) {
      job->run->Bind(runner);
    }
    planned->jobs.push_back(job);
    planned->passes.push_back(job->pass);
    if (job->prepared != nullptr) {
      // It was to run alone, and now in company.
      job->prepared = nullptr;
      job->pass->next_part = 0;
    }
  }
  planned->turn = *std::move(turn);
  return planned;
}

absl::Status Pipeline::BuildForward(Planned* planned) {
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

bool Pipeline::IsCurrent(const Planned& planned) const {
  for (size_t i = 0; i < planned.jobs.size(); ++i) {
    const auto job = jobs_.find(planned.jobs[i]->id);
    if (job == jobs_.end() || job->second->pass != planned.passes[i]) {
      return false;
    }
  }
  return true;
}

void Pipeline::Place(std::unique_ptr<Planned> planned) {
  if (!IsCurrent(*planned)) {
    ReturnTurn(planned->turn);
    return;
  }
  if (planned->jobs.size() == 1) {
    const ForwardShare& share = planned->forward.shares.front();
    const JobId id = planned->jobs.front()->id;
    if (share.parts_left > 0 && !scheduler_.IsWaiting(id)) {
      scheduler_.Continue(id, std::max<int64_t>(share.computed_tokens, 1) * share.parts_left);
    }
  }
  planned_ = std::move(planned);
}

void Pipeline::EndFailed(const Planned& planned, const absl::Status& status,
                         std::vector<Ended>* ended) {
  for (const std::shared_ptr<Job>& job : planned.jobs) {
    if (jobs_.contains(job->id)) {
      End(job->id, status, ended);
    }
  }
  ReturnTurn(planned.turn);
}

void Pipeline::ReturnTurn(const Turn& turn) {
  scheduler_.Return(turn);
  pending_.reset();
  plan_wanted_ = true;
}

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
    {
      MutexLock lock(&mutex_);
      device_idle_ = true;
      mutex_.Await(Condition(
          +[](Pipeline* pipeline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(pipeline->mutex_) {
            return pipeline->stopping_ || pipeline->HasForward() || !pipeline->device_work_.empty();
          },
          this));
      work = TakeWork();
      if (work == nullptr && planned_ == nullptr) {
        return nullptr;
      }
      if (work == nullptr) {
        planned = Launch(&ended);
      }
    }
    if (work != nullptr) {
      RunWork(work);
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
  const Stopwatch running;
  const absl::StatusOr<PartOutput> output =
      healthy() ? first.runner().Run(forward.plan, first.part_outputs())
                : absl::StatusOr<PartOutput>(UnhealthyError());
  const double device_ms = running.ElapsedMs();
  NoteHealth(output.status());
  const std::chrono::duration<double> duration(device_ms / 1000);
  const int64_t computed_tokens = std::max<int64_t>(forward.plan.computed_tokens(), 1);
  if (observer_) {
    observer_({static_cast<int64_t>(planned->jobs.size()), computed_tokens, duration.count()});
  }
  {
    MutexLock lock(&mutex_);
    ++stats_.forwards;
    stats_.device_seconds += duration.count();
    if (output.ok()) {
      scheduler_.RecordForward(planned->turn.tokens, duration);
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
    std::vector<Ended> ended;
    {
      MutexLock lock(&mutex_);
      Settle(job, std::move(progress), &ended);
    }
    Deliver(std::move(ended));
  }
  planned->jobs.clear();
  MutexLock lock(&mutex_);
  running_ = false;
}

void Pipeline::Settle(const Job& job, absl::StatusOr<JobRun::Progress> progress,
                      std::vector<Ended>* ended) {
  if (!jobs_.contains(job.id)) {
    return;
  }
  if (!progress.ok()) {
    End(job.id, std::move(progress).status(), ended);
    return;
  }
  switch (*progress) {
    case JobRun::Progress::kMoreParts:
      break;
    case JobRun::Progress::kAgain:
      Restart(job.id, job.run->TakePass());
      break;
    case JobRun::Progress::kDone: {
      ScoreResult result = job.run->TakeResult();
      LogFallbackOnce(result.route);
      End(job.id, std::move(result), ended);
      break;
    }
  }
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
    scheduler_.Continue(id, std::max<int64_t>(job.pass->batch->tokens.size(), 1));
  }
  plan_wanted_ = true;
}

void Pipeline::NoteHealth(const absl::Status& status) {
  if (absl::IsUnavailable(status) && healthy_.exchange(false)) {
    LogError("device_lost", {{"error", std::string(status.message())}});
  }
}

void Pipeline::LogFallbackOnce(const Route& route) {
  // Small batches and wishes are no fallbacks.
  if (route.reason == Reason::kNone || route.reason == Reason::kSmallBatch ||
      route.reason == Reason::kRequested || route.reason == Reason::kMeasured) {
    return;
  }
  if (logged_reasons_.insert(route.reason).second) {
    LogWarning("route_fallback",
               {{"backend", BackendName(route.backend)}, {"reason", ReasonName(route.reason)}});
  }
}

}  // namespace canopy
