#include "core/engine/forward_states.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace canopy {
namespace {

// Waking the planning thread takes about as long as planning a small forward. If the device is busy
// for less than this, the device thread plans the next forward itself.
constexpr auto kWorthPlanningAhead = std::chrono::microseconds(100);

}  // namespace

ForwardStates::Arrival ForwardStates::Arrive(const JobRequest& request,
                                             const std::shared_ptr<AdmittedJob>& job,
                                             TimePoint now) {
  Arrival arrival;
  if (draining_) {
    arrival.draining = true;
    return arrival;
  }
  arrival.admission = scheduler_.Admit(request, now);
  if (arrival.admission.refusal.has_value()) {
    return arrival;
  }
  if (arrival.admission.displaced.has_value()) {
    arrival.displaced = RemoveEarly(*arrival.admission.displaced);
  }
  jobs_.emplace(request.id, job);
  may_take_ = true;
  stale_ = stale_ || (MayRevise() && scheduler_.WouldChange(batch_, request.id));
  return arrival;
}

std::shared_ptr<AdmittedJob> ForwardStates::Cancel(JobId id) {
  return scheduler_.Cancel(id) ? RemoveEarly(id) : nullptr;
}

ForwardStates::Jobs ForwardStates::Expire(TimePoint now) {
  // A batch that waited for further jobs is due.
  may_take_ = may_take_ || now >= scheduler_.held_until();
  Jobs expired;
  for (const JobId id : scheduler_.Expire(now)) {
    expired.push_back(RemoveEarly(id));
  }
  return expired;
}

std::shared_ptr<AdmittedJob> ForwardStates::End(JobId id) {
  if (!HasJob(id)) {
    return nullptr;
  }
  scheduler_.Finish(id);
  return Remove(id);
}

std::shared_ptr<AdmittedJob> ForwardStates::Remove(JobId id) {
  const auto found = jobs_.find(id);
  std::shared_ptr<AdmittedJob> job = std::move(found->second);
  jobs_.erase(found);
  job->kept_part = nullptr;
  return job;
}

std::shared_ptr<AdmittedJob> ForwardStates::RemoveEarly(JobId id) {
  stale_ = stale_ || MayRevise();
  return Remove(id);
}

bool ForwardStates::Restart(JobId id, std::shared_ptr<Pass> pass) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) {
    return false;
  }
  AdmittedJob& job = *found->second;
  job.pass = std::move(pass);
  job.kept_part = nullptr;
  // A part of the previous pass may be planned already.
  if (next_ == Next::kPlanned && !IsCurrent(*planned_)) {
    const std::unique_ptr<PlannedForward> outdated = std::move(planned_);
    ReturnBatch(outdated->batch);
  }
  if (!scheduler_.IsWaiting(id)) {
    // The first part of the new pass is planned later; until then it counts as a full one.
    const Pass& next = *job.pass;
    const int64_t part_tokens = next.limit == nullptr
                                    ? next.budget_tokens
                                    : std::min(next.budget_tokens, next.limit->tokens());
    scheduler_.Continue(id, std::max<int64_t>(next.batch->tokens.size(), 1), part_tokens);
  }
  may_take_ = true;
  return true;
}

std::unique_ptr<PlannedForward> ForwardStates::StartPlanning(TimePoint now, Jobs* expired) {
  if (!CanPlan()) {
    return nullptr;
  }
  const Jobs ended = Expire(now);
  expired->insert(expired->end(), ended.begin(), ended.end());
  std::unique_ptr<PlannedForward> before = std::move(planned_);
  if (before != nullptr) {
    ReturnBatch(before->batch);
  }
  std::optional<ScheduledBatch> batch = scheduler_.Take(now);
  may_take_ = batch.has_value();
  if (batch.has_value()) {
    next_ = Next::kPlanning;
    batch_ = *batch;
    if (before != nullptr && batch->jobs == before->batch.jobs) {
      before->batch = *std::move(batch);
      return before;
    }
  }
  if (before != nullptr && before->jobs.size() == 1 && IsCurrent(*before)) {
    const std::shared_ptr<AdmittedJob> job = before->jobs.front();
    job->kept_part = std::move(before);
  }
  return batch.has_value() ? Begin(*std::move(batch)) : nullptr;
}

std::unique_ptr<PlannedForward> ForwardStates::Begin(ScheduledBatch batch) {
  if (batch.jobs.size() == 1) {
    std::unique_ptr<PlannedForward> kept = std::move(jobs_.at(batch.jobs.front())->kept_part);
    if (kept != nullptr && IsCurrent(*kept)) {
      kept->batch = std::move(batch);
      return kept;
    }
  }
  auto planned = std::make_unique<PlannedForward>();
  for (const JobId id : batch.jobs) {
    const std::shared_ptr<AdmittedJob>& job = jobs_.at(id);
    planned->jobs.push_back(job);
    planned->passes.push_back(job->pass);
    if (job->kept_part != nullptr) {
      // The job was planned to run alone; now it shares a forward from its first part on.
      job->kept_part = nullptr;
      job->pass->next_part = 0;
    }
  }
  planned->batch = std::move(batch);
  return planned;
}

bool ForwardStates::EndPlanning(std::unique_ptr<PlannedForward> planned) {
  if (!IsPlanning(planned.get())) {
    return false;
  }
  // Jobs that turned out not to fit the forward wait for a later one.
  if (const size_t num_jobs = planned->forward.shares.size(); num_jobs < planned->jobs.size()) {
    scheduler_.Truncate(&planned->batch, num_jobs);
    planned->jobs.resize(num_jobs);
    planned->passes.resize(num_jobs);
  }
  if (!IsCurrent(*planned)) {
    ReturnBatch(planned->batch);
    return true;
  }
  if (planned->jobs.size() == 1) {
    AdjustTokens(planned.get());
  }
  batch_ = planned->batch;
  planned_ = std::move(planned);
  next_ = Next::kPlanned;
  return true;
}

// Tells the scheduler what the forward of one job really computes.
void ForwardStates::AdjustTokens(PlannedForward* planned) {
  const ForwardShare& share = planned->forward.shares.front();
  const JobId id = planned->jobs.front()->id;
  const int64_t part_tokens = std::max<int64_t>(share.computed_tokens, 1);
  if (share.IsPart()) {
    scheduler_.AdjustToPart(&planned->batch, part_tokens);
  } else {
    scheduler_.AdjustTokens(planned->batch, share.computed_tokens);
  }
  if (share.parts_left > 0 && !scheduler_.IsWaiting(id)) {
    scheduler_.Continue(id, part_tokens * share.parts_left, part_tokens);
  }
}

ForwardStates::Jobs ForwardStates::FailPlanning(std::unique_ptr<PlannedForward> planned) {
  Jobs ended;
  if (!IsPlanning(planned.get())) {
    return ended;
  }
  for (const std::shared_ptr<AdmittedJob>& job : planned->jobs) {
    if (std::shared_ptr<AdmittedJob> alive = End(job->id); alive != nullptr) {
      ended.push_back(std::move(alive));
    }
  }
  ReturnBatch(planned->batch);
  return ended;
}

ForwardStates::Step ForwardStates::NextStep(bool has_work) const {
  if (device_ != Device::kIdle) {
    return Step::kWait;
  }
  if (has_work && !(device_work_ran_last_ && CanLaunch())) {
    return Step::kWork;
  }
  if (CanLaunch()) {
    return Step::kLaunch;
  }
  return CanPlan() ? Step::kPlan : Step::kWait;
}

std::unique_ptr<PlannedForward> ForwardStates::Launch(TimePoint now, Jobs* expired) {
  if (!CanLaunch()) {
    return nullptr;
  }
  device_work_ran_last_ = false;
  const Jobs ended = Expire(now);
  expired->insert(expired->end(), ended.begin(), ended.end());
  std::unique_ptr<PlannedForward> planned = std::move(planned_);
  if (!IsCurrent(*planned)) {
    ReturnBatch(planned->batch);
    return nullptr;
  }
  scheduler_.Launch(planned->batch);
  for (const std::shared_ptr<AdmittedJob>& job : planned->jobs) {
    job->launched = true;
  }
  next_ = Next::kEmpty;
  device_ = Device::kRunning;
  plan_ahead_ = scheduler_.Forecast(planned->batch.tokens) >= kWorthPlanningAhead;
  return planned;
}

bool ForwardStates::Finish() {
  if (device_ != Device::kRunning) {
    return false;
  }
  device_ = Device::kIdle;
  plan_ahead_ = false;
  return true;
}

bool ForwardStates::StartWork() {
  if (device_ != Device::kIdle) {
    return false;
  }
  device_ = Device::kWorking;
  device_work_ran_last_ = true;
  plan_ahead_ = true;
  return true;
}

bool ForwardStates::FinishWork() {
  if (device_ != Device::kWorking) {
    return false;
  }
  device_ = Device::kIdle;
  plan_ahead_ = false;
  return true;
}

TimePoint ForwardStates::next_alarm() const {
  // If there may be jobs to take, StartPlanning comes before the end of the batch window.
  return may_take_ ? scheduler_.next_deadline()
                   : std::min(scheduler_.next_deadline(), scheduler_.held_until());
}

bool ForwardStates::IsCurrent(const PlannedForward& planned) const {
  for (size_t i = 0; i < planned.jobs.size(); ++i) {
    const auto job = jobs_.find(planned.jobs[i]->id);
    if (job == jobs_.end() || job->second->pass != planned.passes[i]) {
      return false;
    }
  }
  return true;
}

void ForwardStates::ReturnBatch(const ScheduledBatch& batch) {
  scheduler_.Return(batch);
  next_ = Next::kEmpty;
  stale_ = false;
}

}  // namespace canopy
