#include "core/engine/scheduler.h"

#include <algorithm>

#include "absl/time/time.h"
#include "base/saturating_time.h"

namespace canopy {

Scheduler::Scheduler(const Options& options)
    : options_(options),
      waiting_work_{WaitingWork(options.max_batch_tokens, options.max_batch_bytes),
                    WaitingWork(options.max_batch_tokens, options.max_batch_bytes)} {}

int64_t Scheduler::NextForwardTokens(const Job& job) const {
  return std::min({job.remaining_tokens, job.part_tokens, options_.max_batch_tokens});
}

bool Scheduler::MayShare(const JobRequest& request) const {
  return !request.share_key.empty() && request.tokens <= options_.max_batch_tokens &&
         request.device_bytes <= options_.max_batch_bytes;
}

bool Scheduler::CanShare(const Job& job) const { return !InParts(job) && MayShare(job.request); }

bool Scheduler::InParts(const Job& job) const {
  return job.in_parts || job.begun || job.request.tokens > options_.max_batch_tokens;
}

std::optional<JobId> Scheduler::PickFirst(TimePoint now) {
  if (queues_[0].empty()) {
    low_priority_went_last_ = false;
    return PickFair(1);
  }
  if (!low_arrivals_.empty() && !low_priority_went_last_ &&
      now >= SaturatingAdd(low_arrivals_.begin()->first, options_.low_priority_patience)) {
    low_priority_went_last_ = true;
    return low_arrivals_.begin()->second;
  }
  low_priority_went_last_ = false;
  return PickFair(0);
}

std::optional<JobId> Scheduler::PickFair(int priority) {
  FairQueue& queue = queues_[priority];
  while (const std::optional<JobId> next = queue.Next()) {
    Job& job = jobs_.at(*next);
    const std::string& client = job.request.client;
    if (job.waits_unsplit || job.yielded || loads_.at(client).waiting_unsplit[priority] == 0) {
      return next;
    }
    job.yielded = true;
    queue.MoveToBack(client, job.place);
  }
  return std::nullopt;
}

std::optional<ScheduledBatch> Scheduler::Take(TimePoint now) {
  held_until_ = TimePoint::max();
  const std::optional<JobId> first = PickFirst(now);
  if (!first.has_value()) {
    return std::nullopt;
  }
  ScheduledBatch batch;
  const Job& job = jobs_.at(*first);
  const bool shares = CanShare(job);
  if (shares) {
    batch.size_tokens = waiting_work_[Index(job.request.priority)].BatchSize(job.request.share_key);
  }
  TakeJob(*first, &batch);
  if (!shares) {
    batch.size_tokens = batch.tokens;
    return batch;
  }
  batch.share_key = jobs_.at(*first).request.share_key;
  const bool full = Fill(&batch);
  const TimePoint ready = SaturatingAdd(EarliestArrival(batch), options_.batch_window);
  if (!full && ready > now) {
    PutBack(batch);
    held_until_ = ready;
    return std::nullopt;
  }
  return batch;
}

// Adds jobs to the batch. Returns whether the batch is full or a job did not fit.
bool Scheduler::Fill(ScheduledBatch* batch) {
  bool full = batch->tokens >= options_.max_batch_tokens;
  const auto joins = [&](JobId id) {
    const Job& job = jobs_.at(id);
    if (!CanShare(job) || job.request.share_key != batch->share_key) {
      return false;
    }
    const bool fits = job.remaining_tokens <= options_.max_batch_tokens - batch->tokens &&
                      job.request.device_bytes <= options_.max_batch_bytes - batch->device_bytes;
    full = full || !fits;
    return fits;
  };
  for (FairQueue& queue : queues_) {
    while (const std::optional<JobId> next = queue.Next(options_.max_batch_tokens, joins)) {
      TakeJob(*next, batch);
    }
    // Low jobs join only if no normal job has to wait longer for that.
    if (!queue.empty()) {
      break;
    }
  }
  return full;
}

TimePoint Scheduler::EarliestArrival(const ScheduledBatch& batch) const {
  TimePoint earliest = TimePoint::max();
  for (const JobId id : batch.jobs) {
    earliest = std::min(earliest, jobs_.at(id).arrival);
  }
  return earliest;
}

void Scheduler::TakeJob(JobId id, ScheduledBatch* batch) {
  Job& job = jobs_.at(id);
  job.in_batch = true;
  job.taken_tokens = NextForwardTokens(job);
  batch->jobs.push_back(id);
  batch->tokens += job.taken_tokens;
  batch->device_bytes += job.request.device_bytes;
  job.taken_at = QueueOf(job).clock();
  QueueOf(job).Charge(job.request.client, job.taken_tokens);
  StopWaiting(id);
}

void Scheduler::PutBack(const ScheduledBatch& batch) {
  for (auto id = batch.jobs.rbegin(); id != batch.jobs.rend(); ++id) {
    const auto found = jobs_.find(*id);
    if (found == jobs_.end()) {
      continue;
    }
    Job& job = found->second;
    job.in_batch = false;
    if (job.waiting) {
      // The job already waits for its next part.
      RemoveWork(&job);
      job.remaining_tokens += job.taken_tokens;
      AddWork(&job);
      UpdateDisplaceable(*id, &job);
    } else {
      StartWaiting(*id, InParts(job) ? FairQueue::End::kBack : FairQueue::End::kFront);
    }
    UpdateCount(&job);
    QueueOf(job).Charge(job.request.client, -job.taken_tokens);
    if (InParts(job)) {
      QueueOf(job).Yield(job.request.client, job.place);
    }
  }
}

void Scheduler::Return(const ScheduledBatch& batch) {
  PutBack(batch);
  for (const JobId id : batch.jobs) {
    if (const auto job = jobs_.find(id); job != jobs_.end()) {
      job->second.yielded = true;
    }
  }
}

void Scheduler::Truncate(ScheduledBatch* batch, size_t num_jobs) {
  const auto end = batch->jobs.begin() + static_cast<std::ptrdiff_t>(num_jobs);
  ScheduledBatch others;
  others.jobs.assign(end, batch->jobs.end());
  PutBack(others);
  batch->jobs.erase(end, batch->jobs.end());
  batch->share_key.clear();
  batch->tokens = 0;
  batch->device_bytes = 0;
  for (const JobId id : batch->jobs) {
    // If a job has ended, the whole batch returns to the queue later.
    if (const auto job = jobs_.find(id); job != jobs_.end()) {
      batch->tokens += job->second.taken_tokens;
      batch->device_bytes += job->second.request.device_bytes;
    }
  }
}

void Scheduler::AdjustTokens(const ScheduledBatch& batch, int64_t tokens) {
  const auto found = jobs_.find(batch.jobs.front());
  if (batch.jobs.size() != 1 || found == jobs_.end() || tokens <= found->second.taken_tokens) {
    return;
  }
  Job& job = found->second;
  QueueOf(job).Charge(job.request.client, tokens - job.taken_tokens);
  job.taken_tokens = tokens;
  UpdateCount(&job);
}

void Scheduler::AdjustToPart(ScheduledBatch* batch, int64_t tokens) {
  batch->tokens = tokens;
  batch->size_tokens = tokens;
  batch->share_key.clear();
  if (const auto found = jobs_.find(batch->jobs.front()); found != jobs_.end()) {
    Job& job = found->second;
    QueueOf(job).Charge(job.request.client, tokens - job.taken_tokens);
    job.taken_tokens = tokens;
    UpdateCount(&job);
  }
}

void Scheduler::Launch(const ScheduledBatch& batch) {
  for (const JobId id : batch.jobs) {
    Job& job = jobs_.at(id);
    // The clock does not advance when the batch is taken: another forward runs then, and a new
    // client would start behind a part that has not begun.
    QueueOf(job).Advance(job.taken_at);
    job.in_batch = false;
    job.begun = true;
    job.yielded = false;
    if (job.waiting) {
      UpdateCount(&job);
    } else {
      Uncount(id);
    }
  }
}

void Scheduler::Continue(JobId id, int64_t tokens, int64_t next_tokens) {
  Job& job = jobs_.at(id);
  job.remaining_tokens = tokens;
  job.part_tokens = std::max<int64_t>(next_tokens, 1);
  job.in_parts = true;
  StartWaiting(id, FairQueue::End::kBack);
  UpdateCount(&job);
}

void Scheduler::Finish(JobId id) {
  Forget(id);
  ++totals_.answered;
}

bool Scheduler::Cancel(JobId id) {
  if (!jobs_.contains(id)) {
    return false;
  }
  Forget(id);
  ++totals_.cancelled;
  return true;
}

std::vector<JobId> Scheduler::Expire(TimePoint now) {
  std::vector<JobId> expired;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const JobId id = deadlines_.begin()->second;
    expired.push_back(id);
    Forget(id);
    ++totals_.expired;
  }
  return expired;
}

bool Scheduler::WouldChange(const ScheduledBatch& batch, JobId arrived) const {
  const auto first = jobs_.find(batch.jobs.front());
  const auto other = jobs_.find(arrived);
  if (first == jobs_.end() || other == jobs_.end() || !other->second.waiting) {
    return false;
  }
  const Job& job = other->second;
  if (!batch.share_key.empty() && CanShare(job) && job.request.share_key == batch.share_key) {
    return job.remaining_tokens <= options_.max_batch_tokens - batch.tokens &&
           job.request.device_bytes <= options_.max_batch_bytes - batch.device_bytes;
  }
  if (first->second.yielded || job.request.priority > first->second.request.priority) {
    return false;
  }
  return job.request.priority < first->second.request.priority ||
         (InParts(first->second) && !InParts(job));
}

bool Scheduler::IsWaiting(JobId id) const {
  const auto job = jobs_.find(id);
  return job != jobs_.end() && job->second.waiting;
}

TimePoint Scheduler::next_deadline() const {
  return deadlines_.empty() ? TimePoint::max() : deadlines_.begin()->first;
}

// A waiting job can be displaced unless it is in a batch or has begun.
void Scheduler::UpdateDisplaceable(JobId id, Job* job) {
  const bool displaceable = job->waiting && !job->in_batch && !job->begun;
  if (displaceable == job->displaceable) {
    return;
  }
  job->displaceable = displaceable;
  DisplacementIndex::Client* held = &loads_.at(job->request.client).held;
  if (displaceable) {
    displaceable_.Add(held, job->request.priority, job->arrival, id);
  } else {
    displaceable_.Remove(held, job->request.priority, job->arrival, id);
  }
}

void Scheduler::AddWork(Job* job) {
  job->work = {CanShare(*job), job->remaining_tokens, NextForwardTokens(*job),
               job->request.device_bytes, job->in_parts ? 0 : job->request.forecast_nanos};
  waiting_work_[Index(job->request.priority)].Add(job->request.share_key, job->work);
  QueueOf(*job).ChangeWaiting(job->request.client, job->work.tokens);
  loads_[job->request.client].waiting_tokens += job->work.tokens;
}

void Scheduler::RemoveWork(Job* job) {
  waiting_work_[Index(job->request.priority)].Remove(job->request.share_key, job->work);
  QueueOf(*job).ChangeWaiting(job->request.client, -job->work.tokens);
  loads_.at(job->request.client).waiting_tokens -= job->work.tokens;
}

void Scheduler::StartWaiting(JobId id, FairQueue::End end) {
  Job& job = jobs_.at(id);
  job.waiting = true;
  job.place = QueueOf(job).Add(job.request.client, id, end);
  job.waits_unsplit = !InParts(job);
  AddWork(&job);
  ClientLoad& load = loads_.at(job.request.client);
  load.waiting_unsplit[Index(job.request.priority)] += job.waits_unsplit ? 1 : 0;
  UpdateDisplaceable(id, &job);
  if (job.request.priority == Priority::kLow) {
    low_arrivals_.insert({job.arrival, id});
  }
}

void Scheduler::StopWaiting(JobId id) {
  Job& job = jobs_.at(id);
  job.waiting = false;
  RemoveWork(&job);
  QueueOf(job).Remove(job.request.client, job.place);
  UpdateDisplaceable(id, &job);
  const auto load = loads_.find(job.request.client);
  load->second.waiting_unsplit[Index(job.request.priority)] -= job.waits_unsplit ? 1 : 0;
  ForgetIfIdle(job.request.client);
  if (job.request.priority == Priority::kLow) {
    low_arrivals_.erase({job.arrival, id});
  }
}

// The count contains the tokens that wait and those that were taken but may still be returned.
void Scheduler::UpdateCount(Job* job) {
  if (!job->counted) {
    return;
  }
  const int64_t in_batch = job->waiting && job->in_batch ? job->taken_tokens : 0;
  const int64_t more = job->remaining_tokens + in_batch - job->counted_tokens;
  if (more != 0) {
    job->counted_tokens += more;
    queued_tokens_ += more;
    displaceable_.ChangeHeld(&loads_.at(job->request.client).held, 0, more);
  }
}

void Scheduler::Uncount(JobId id) {
  Job& job = jobs_.at(id);
  if (!job.counted) {
    return;
  }
  job.counted = false;
  --queued_[Index(job.request.priority)];
  queued_tokens_ -= job.counted_tokens;
  const auto load = loads_.find(job.request.client);
  displaceable_.ChangeHeld(&load->second.held, -1, -job.counted_tokens);
  ForgetIfIdle(job.request.client);
}

void Scheduler::ForgetIfIdle(const std::string& client) {
  const auto load = loads_.find(client);
  if (load->second.empty()) {
    displaceable_.Forget(&load->second.held);
    loads_.erase(load);
  }
}

void Scheduler::Forget(JobId id) {
  const Job& job = jobs_.at(id);
  if (job.waiting) {
    StopWaiting(id);
  }
  Uncount(id);
  if (job.request.deadline != TimePoint::max()) {
    deadlines_.erase({job.request.deadline, id});
  }
  jobs_.erase(id);
}

}  // namespace canopy
