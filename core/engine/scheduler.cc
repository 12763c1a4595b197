#include "core/engine/scheduler.h"

#include <algorithm>

#include "absl/time/time.h"
#include "base/saturating_time.h"

namespace canopy {

Scheduler::Scheduler(const Options& options)
    : options_(options),
      waiting_work_{WaitingWork(options.max_batch_tokens, options.max_batch_bytes),
                    WaitingWork(options.max_batch_tokens, options.max_batch_bytes)} {}

int64_t Scheduler::TurnTokens(const Job& job) const {
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
    patience_had_last_ = false;
    return PickFair(1);
  }
  if (!low_arrivals_.empty() && !patience_had_last_ &&
      now >= SaturatingAdd(low_arrivals_.begin()->first, options_.low_priority_patience)) {
    patience_had_last_ = true;
    return low_arrivals_.begin()->second;
  }
  patience_had_last_ = false;
  return PickFair(0);
}

std::optional<JobId> Scheduler::PickFair(int priority) {
  FairQueue& queue = queues_[priority];
  while (const std::optional<JobId> next = queue.Next()) {
    Job& job = jobs_.at(*next);
    const std::string& client = job.request.client;
    if (job.waits_whole || job.yielded || loads_.at(client).waiting_whole[priority] == 0) {
      return next;
    }
    job.yielded = true;
    queue.MoveToBack(client, job.place);
  }
  return std::nullopt;
}

std::optional<Turn> Scheduler::Take(TimePoint now) {
  held_until_ = TimePoint::max();
  const std::optional<JobId> first = PickFirst(now);
  if (!first.has_value()) {
    return std::nullopt;
  }
  Turn turn;
  const Job& job = jobs_.at(*first);
  const bool shares = CanShare(job);
  if (shares) {
    turn.size_tokens = waiting_work_[Index(job.request.priority)].BatchSize(job.request.share_key);
  }
  TakeJob(*first, &turn);
  if (!shares) {
    turn.size_tokens = turn.tokens;
    return turn;
  }
  turn.share_key = jobs_.at(*first).request.share_key;
  const bool full = Fill(&turn);
  const TimePoint ready = SaturatingAdd(EarliestArrival(turn), options_.batch_window);
  if (!full && ready > now) {
    PutBack(turn);
    held_until_ = ready;
    return std::nullopt;
  }
  return turn;
}

// Whether a job was left out for want of room.
bool Scheduler::Fill(Turn* turn) {
  bool full = turn->tokens >= options_.max_batch_tokens;
  const auto joins = [&](JobId id) {
    const Job& job = jobs_.at(id);
    if (!CanShare(job) || job.request.share_key != turn->share_key) {
      return false;
    }
    const bool fits = job.remaining_tokens <= options_.max_batch_tokens - turn->tokens &&
                      job.request.device_bytes <= options_.max_batch_bytes - turn->device_bytes;
    full = full || !fits;
    return fits;
  };
  for (FairQueue& queue : queues_) {
    while (const std::optional<JobId> next = queue.Next(options_.max_batch_tokens, joins)) {
      TakeJob(*next, turn);
    }
    // Low ones join when no normal one has to wait longer for that.
    if (!queue.empty()) {
      break;
    }
  }
  return full;
}

TimePoint Scheduler::EarliestArrival(const Turn& turn) const {
  TimePoint earliest = TimePoint::max();
  for (const JobId id : turn.jobs) {
    earliest = std::min(earliest, jobs_.at(id).arrival);
  }
  return earliest;
}

void Scheduler::TakeJob(JobId id, Turn* turn) {
  Job& job = jobs_.at(id);
  job.in_hand = true;
  job.taken_tokens = TurnTokens(job);
  turn->jobs.push_back(id);
  turn->tokens += job.taken_tokens;
  turn->device_bytes += job.request.device_bytes;
  job.taken_at = QueueOf(job).clock();
  QueueOf(job).Charge(job.request.client, job.taken_tokens);
  StopWaiting(id);
}

void Scheduler::PutBack(const Turn& turn) {
  for (auto id = turn.jobs.rbegin(); id != turn.jobs.rend(); ++id) {
    const auto found = jobs_.find(*id);
    if (found == jobs_.end()) {
      continue;
    }
    Job& job = found->second;
    job.in_hand = false;
    if (job.waiting) {
      // It waits for its next part already.
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

void Scheduler::Return(const Turn& turn) {
  PutBack(turn);
  for (const JobId id : turn.jobs) {
    if (const auto job = jobs_.find(id); job != jobs_.end()) {
      job->second.yielded = true;
    }
  }
}

void Scheduler::Shorten(Turn* turn, size_t num_jobs) {
  const auto end = turn->jobs.begin() + static_cast<std::ptrdiff_t>(num_jobs);
  Turn others;
  others.jobs.assign(end, turn->jobs.end());
  PutBack(others);
  turn->jobs.erase(end, turn->jobs.end());
  turn->share_key.clear();
  turn->tokens = 0;
  turn->device_bytes = 0;
  for (const JobId id : turn->jobs) {
    // One that has ended takes the turn with it.
    if (const auto job = jobs_.find(id); job != jobs_.end()) {
      turn->tokens += job->second.taken_tokens;
      turn->device_bytes += job->second.request.device_bytes;
    }
  }
}

void Scheduler::Correct(const Turn& turn, int64_t tokens) {
  const auto found = jobs_.find(turn.jobs.front());
  if (turn.jobs.size() != 1 || found == jobs_.end() || tokens <= found->second.taken_tokens) {
    return;
  }
  Job& job = found->second;
  QueueOf(job).Charge(job.request.client, tokens - job.taken_tokens);
  job.taken_tokens = tokens;
  UpdateCount(&job);
}

void Scheduler::CorrectPart(Turn* turn, int64_t tokens) {
  turn->tokens = tokens;
  turn->size_tokens = tokens;
  turn->share_key.clear();
  if (const auto found = jobs_.find(turn->jobs.front()); found != jobs_.end()) {
    Job& job = found->second;
    QueueOf(job).Charge(job.request.client, tokens - job.taken_tokens);
    job.taken_tokens = tokens;
    UpdateCount(&job);
  }
}

void Scheduler::Launch(const Turn& turn) {
  for (const JobId id : turn.jobs) {
    Job& job = jobs_.at(id);
    // Not when the turn is taken: that is while another runs, and who comes meanwhile would wait
    // behind a part that has not begun.
    QueueOf(job).Advance(job.taken_at);
    job.in_hand = false;
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

bool Scheduler::WouldChange(const Turn& turn, JobId arrived) const {
  const auto first = jobs_.find(turn.jobs.front());
  const auto other = jobs_.find(arrived);
  if (first == jobs_.end() || other == jobs_.end() || !other->second.waiting) {
    return false;
  }
  const Job& job = other->second;
  if (!turn.share_key.empty() && CanShare(job) && job.request.share_key == turn.share_key) {
    return job.remaining_tokens <= options_.max_batch_tokens - turn.tokens &&
           job.request.device_bytes <= options_.max_batch_bytes - turn.device_bytes;
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

// What is in hand, or has begun, keeps its place.
void Scheduler::UpdateDisplaceable(JobId id, Job* job) {
  const bool displaceable = job->waiting && !job->in_hand && !job->begun;
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
  job->work = {CanShare(*job), job->remaining_tokens, TurnTokens(*job), job->request.device_bytes,
               job->in_parts ? 0 : job->request.forecast_nanos};
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
  job.waits_whole = !InParts(job);
  AddWork(&job);
  ClientLoad& load = loads_.at(job.request.client);
  load.waiting_whole[Index(job.request.priority)] += job.waits_whole ? 1 : 0;
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
  load->second.waiting_whole[Index(job.request.priority)] -= job.waits_whole ? 1 : 0;
  ForgetIfIdle(job.request.client);
  if (job.request.priority == Priority::kLow) {
    low_arrivals_.erase({job.arrival, id});
  }
}

// What waits, and what was taken and may still come back.
void Scheduler::UpdateCount(Job* job) {
  if (!job->counted) {
    return;
  }
  const int64_t in_hand = job->waiting && job->in_hand ? job->taken_tokens : 0;
  const int64_t more = job->remaining_tokens + in_hand - job->counted_tokens;
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
