#include "core/engine/scheduler.h"

#include <algorithm>
#include <tuple>

#include "absl/time/time.h"
#include "core/base/saturating_time.h"

namespace canopy {
namespace {

// What recent forwards keep of their weight when another has run.
constexpr double kForwardMemory = 0.95;
// A job gets in when it would be answered within this share of its time: what is in flight and the
// spread of forwards must fit the rest, or under overload every answer would come a little too
// late.
constexpr double kDeadlineShare = 0.75;

constexpr microseconds kUnknownRetryDelay{100'000};
constexpr microseconds kMinRetryDelay{10'000};
constexpr microseconds kMaxRetryDelay{5'000'000};

}  // namespace

int64_t Scheduler::TurnTokens(const Job& job) const {
  return std::min(job.remaining_tokens, options_.max_batch_tokens);
}

bool Scheduler::CanShare(const Job& job) const {
  return !job.request.share_key.empty() && !InParts(job) &&
         job.request.device_bytes <= options_.max_batch_bytes;
}

bool Scheduler::InParts(const Job& job) const {
  return job.begun || job.request.tokens > options_.max_batch_tokens;
}

std::optional<Refusal> Scheduler::FindRefusal(const JobRequest& request) const {
  if (queued_[0] + queued_[1] >= options_.max_queued_requests) {
    return Refusal::kQueuedRequests;
  }
  // A job larger than the whole limit may still run when nothing else waits.
  if (queued_tokens_ > 0 && request.input_tokens > options_.max_queued_tokens - queued_tokens_) {
    return Refusal::kQueuedTokens;
  }
  return std::nullopt;
}

std::optional<JobId> Scheduler::FindVictim(const JobRequest& request, Refusal refusal) const {
  const auto load_of = [&](const ClientLoad& load) {
    return refusal == Refusal::kQueuedRequests ? load.requests : load.input_tokens;
  };
  const auto own = loads_.find(request.client);
  const int64_t own_load = (own == loads_.end() ? 0 : load_of(own->second)) +
                           (refusal == Refusal::kQueuedRequests ? 1 : request.input_tokens);
  const bool others_have_more = std::any_of(loads_.begin(), loads_.end(), [&](const auto& load) {
    return load_of(load.second) > own_load;
  });
  if (!others_have_more && (request.priority == Priority::kLow || low_arrivals_.empty())) {
    return std::nullopt;
  }
  using Rank = std::tuple<bool, int64_t, TimePoint, JobId>;
  std::optional<Rank> victim;
  for (const auto& [id, job] : jobs_) {
    const bool is_lower = job.request.priority > request.priority;
    if (!job.waiting || job.in_hand || job.begun || job.request.priority < request.priority) {
      continue;
    }
    const int64_t load = load_of(loads_.at(job.request.client));
    if (is_lower || load > own_load) {
      const Rank rank(is_lower, load, job.arrival, id);
      victim = victim.has_value() ? std::max(*victim, rank) : rank;
    }
  }
  if (!victim.has_value()) {
    return std::nullopt;
  }
  return std::get<JobId>(*victim);
}

bool Scheduler::FitsWithout(JobId victim, const JobRequest& request) const {
  const int64_t others = queued_tokens_ - jobs_.at(victim).request.input_tokens;
  return others == 0 || request.input_tokens <= options_.max_queued_tokens - others;
}

// What the device computes before a new job, as far as it is known: of the client's own jobs all,
// of another client's those that its clock lets go first.
int64_t Scheduler::TokensAhead(const JobRequest& request) const {
  if (request.priority == Priority::kLow) {
    return waiting_tokens_[0] + waiting_tokens_[1];
  }
  const auto own = loads_.find(request.client);
  int64_t ahead = own == loads_.end() ? 0 : own->second.waiting_tokens;
  const int64_t clock_then = queues_[0].ClockOf(request.client) + ahead;
  queues_[0].VisitInOrder([&](const std::string& client, int64_t clock) {
    if (client != request.client) {
      ahead += std::min(loads_.at(client).waiting_tokens,
                        std::max<int64_t>(clock_then + request.tokens - clock, 0));
    }
    return clock < clock_then + request.tokens;
  });
  return std::min(ahead, waiting_tokens_[0]);
}

bool Scheduler::IsHopeless(const JobRequest& request, TimePoint now) const {
  if (request.deadline == TimePoint::max() || recent_seconds_ <= 0) {
    return false;
  }
  const int64_t ahead = TokensAhead(request);
  return ahead > 0 &&
         Forecast(ahead + request.tokens).count() >
             kDeadlineShare * absl::ToDoubleSeconds(TimeBetween(now, request.deadline));
}

std::chrono::duration<double> Scheduler::Forecast(int64_t tokens) const {
  return recent_seconds_ <= 0 ? std::chrono::duration<double>::max()
                              : std::chrono::duration<double>(static_cast<double>(tokens) *
                                                              recent_seconds_ / recent_tokens_);
}

// The time in which half of what waits will have left.
microseconds Scheduler::RetryDelay() const {
  if (recent_seconds_ <= 0) {
    return kUnknownRetryDelay;
  }
  const double seconds = Forecast(waiting_tokens_[0] + waiting_tokens_[1]).count() / 2;
  const double limited = std::min(seconds * 1e6, static_cast<double>(kMaxRetryDelay.count()));
  return std::max(kMinRetryDelay, microseconds(static_cast<int64_t>(limited)));
}

Scheduler::Admission Scheduler::Admit(JobRequest request, TimePoint now) {
  Admission admission;
  admission.retry_delay = RetryDelay();
  if (IsHopeless(request, now)) {
    admission.refusal = Refusal::kDeadline;
  } else if (admission.refusal = FindRefusal(request); admission.refusal.has_value()) {
    const std::optional<JobId> victim = FindVictim(request, *admission.refusal);
    if (victim.has_value() && FitsWithout(*victim, request)) {
      admission.refusal = std::nullopt;
      admission.displaced = victim;
      Forget(*victim);
      ++totals_.displaced;
    }
  }
  if (admission.refusal.has_value()) {
    ++totals_.refused[static_cast<size_t>(*admission.refusal)];
    return admission;
  }

  ++totals_.accepted;
  const JobId id = request.id;
  ClientLoad& load = loads_[request.client];
  ++load.requests;
  load.input_tokens += request.input_tokens;
  ++queued_[Index(request.priority)];
  queued_tokens_ += request.input_tokens;
  if (request.deadline != TimePoint::max()) {
    deadlines_.insert({request.deadline, id});
  }
  Job& job = jobs_[id];
  job.arrival = now;
  job.remaining_tokens = request.tokens;
  job.request = std::move(request);
  StartWaiting(id, FairQueue::End::kBack);
  return admission;
}

std::optional<JobId> Scheduler::PickFirst(TimePoint now) {
  if (queues_[0].empty()) {
    patience_had_last_ = false;
    return PickFair(1);
  }
  if (!low_arrivals_.empty() && !patience_had_last_ &&
      now >= SaturatingAdd(low_arrivals_.begin()->first,
                           absl::FromChrono(options_.low_priority_patience))) {
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
  const bool shares = CanShare(jobs_.at(*first));
  TakeJob(*first, &turn);
  if (!shares) {
    return turn;
  }
  turn.share_key = jobs_.at(*first).request.share_key;
  const bool full = Fill(&turn);
  const TimePoint ready =
      SaturatingAdd(EarliestArrival(turn), absl::FromChrono(options_.batch_window));
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
      waiting_tokens_[Index(job.request.priority)] += job.taken_tokens;
      loads_[job.request.client].waiting_tokens += job.taken_tokens;
      job.remaining_tokens += job.taken_tokens;
    } else {
      StartWaiting(*id, InParts(job) ? FairQueue::End::kBack : FairQueue::End::kFront);
    }
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

void Scheduler::Launch(const Turn& turn) {
  for (const JobId id : turn.jobs) {
    Job& job = jobs_.at(id);
    // Not when the turn is taken: that is while another runs, and who comes meanwhile would wait
    // behind a part that has not begun.
    QueueOf(job).Advance(job.taken_at);
    job.in_hand = false;
    job.begun = true;
    job.yielded = false;
    if (!job.waiting) {
      Uncount(id);
    }
  }
}

void Scheduler::Continue(JobId id, int64_t tokens) {
  jobs_.at(id).remaining_tokens = tokens;
  StartWaiting(id, FairQueue::End::kBack);
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

void Scheduler::RecordForward(int64_t tokens, std::chrono::duration<double> duration) {
  recent_tokens_ = recent_tokens_ * kForwardMemory + static_cast<double>(tokens);
  recent_seconds_ = recent_seconds_ * kForwardMemory + duration.count();
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

void Scheduler::StartWaiting(JobId id, FairQueue::End end) {
  Job& job = jobs_.at(id);
  job.waiting = true;
  job.place = QueueOf(job).Add(job.request.client, id, end);
  job.waits_whole = !InParts(job);
  const int priority = Index(job.request.priority);
  waiting_tokens_[priority] += job.remaining_tokens;
  ClientLoad& load = loads_[job.request.client];
  load.waiting_tokens += job.remaining_tokens;
  load.waiting_whole[priority] += job.waits_whole ? 1 : 0;
  if (job.request.priority == Priority::kLow) {
    low_arrivals_.insert({job.arrival, id});
  }
}

void Scheduler::StopWaiting(JobId id) {
  Job& job = jobs_.at(id);
  job.waiting = false;
  QueueOf(job).Remove(job.request.client, job.place);
  const int priority = Index(job.request.priority);
  waiting_tokens_[priority] -= job.remaining_tokens;
  const auto load = loads_.find(job.request.client);
  load->second.waiting_tokens -= job.remaining_tokens;
  load->second.waiting_whole[priority] -= job.waits_whole ? 1 : 0;
  if (load->second.empty()) {
    loads_.erase(load);
  }
  if (job.request.priority == Priority::kLow) {
    low_arrivals_.erase({job.arrival, id});
  }
}

void Scheduler::Uncount(JobId id) {
  Job& job = jobs_.at(id);
  if (!job.counted) {
    return;
  }
  job.counted = false;
  --queued_[Index(job.request.priority)];
  queued_tokens_ -= job.request.input_tokens;
  const auto load = loads_.find(job.request.client);
  --load->second.requests;
  load->second.input_tokens -= job.request.input_tokens;
  if (load->second.empty()) {
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
