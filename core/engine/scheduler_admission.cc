// Admission: which jobs enter the queue, and which jobs they displace.
#include <algorithm>

#include "absl/time/time.h"
#include "base/saturating_time.h"
#include "core/engine/scheduler.h"

namespace canopy {
namespace {

// A job is admitted if it would be answered within this fraction of its time. The rest is for
// forwards in progress and for the variation of their times; without it every answer under overload
// would come a little too late.
constexpr double kDeadlineShare = 0.75;

constexpr microseconds kUnknownRetryDelay{100'000};
constexpr microseconds kMinRetryDelay{10'000};
constexpr microseconds kMaxRetryDelay{5'000'000};

DisplacementIndex::Measure MeasureOf(Refusal refusal) {
  return refusal == Refusal::kQueuedRequests ? DisplacementIndex::Measure::kRequests
                                             : DisplacementIndex::Measure::kTokens;
}

}  // namespace

std::optional<Refusal> Scheduler::FindRefusal(const JobRequest& request) const {
  if (queued_[0] + queued_[1] >= options_.max_queued_requests) {
    return Refusal::kQueuedRequests;
  }
  // A job larger than the whole limit may still run if no other job waits.
  if (queued_tokens_ > 0 && request.tokens > options_.max_queued_tokens - queued_tokens_) {
    return Refusal::kQueuedTokens;
  }
  return std::nullopt;
}

std::optional<JobId> Scheduler::FindDisplaceable(const JobRequest& request, Refusal refusal) {
  const DisplacementIndex::Measure measure = MeasureOf(refusal);
  const auto own = loads_.find(request.client);
  const int64_t held = own == loads_.end() ? 0 : own->second.held.held(measure);
  const int64_t added = refusal == Refusal::kQueuedRequests ? 1 : request.tokens;
  return displaceable_.Find(request.priority, measure, held + added);
}

bool Scheduler::FitsWithout(JobId displaced, const JobRequest& request) const {
  const int64_t others = queued_tokens_ - jobs_.at(displaced).counted_tokens;
  return others == 0 || request.tokens <= options_.max_queued_tokens - others;
}

// Returns whether the device needs too long, even at best, for the job and for the work ahead of
// it. All waiting work is ahead of a low job; the work that the clients' clocks let go first is
// ahead of a normal one.
bool Scheduler::CannotMeetDeadline(const JobRequest& request, TimePoint now) {
  if (request.deadline == TimePoint::max()) {
    return false;
  }
  const bool is_low = request.priority == Priority::kLow;
  const int64_t normal_ahead =
      is_low ? waiting_work_[0].tokens() : queues_[0].TokensAhead(request.client, request.tokens);
  const int64_t low_ahead = is_low ? waiting_work_[1].tokens() : 0;
  if (normal_ahead + low_ahead == 0) {
    return false;
  }
  const Work own{MayShare(request), request.tokens,
                 std::min(request.tokens, options_.max_batch_tokens), request.device_bytes,
                 request.forecast_nanos};
  const double seconds =
      waiting_work_[Index(request.priority)].MinSecondsOf(request.share_key, own, rates_) +
      waiting_work_[0].MinSeconds(normal_ahead, rates_) +
      waiting_work_[1].MinSeconds(low_ahead, rates_);
  return seconds > kDeadlineShare * absl::ToDoubleSeconds(TimeBetween(now, request.deadline));
}

std::chrono::duration<double> Scheduler::Forecast(int64_t tokens) const {
  const std::optional<double> rate = rates_.MeanSecondsPerToken();
  return rate.has_value() ? std::chrono::duration<double>(static_cast<double>(tokens) * *rate)
                          : std::chrono::duration<double>::max();
}

// Returns the time after which half of the waiting work will be done, as far as its size is known.
microseconds Scheduler::RetryDelay() const {
  double seconds = 0;
  for (const WaitingWork& work : waiting_work_) {
    seconds += work.MinSeconds(work.tokens(), rates_) / 2;
  }
  if (seconds <= 0) {
    return kUnknownRetryDelay;
  }
  const double limited = std::min(seconds * 1e6, static_cast<double>(kMaxRetryDelay.count()));
  return std::max(kMinRetryDelay, microseconds(static_cast<int64_t>(limited)));
}

// Withdraws a refusal if another job can give up its place.
void Scheduler::MakeRoom(const JobRequest& request, Admission* admission) {
  const std::optional<JobId> displaced = FindDisplaceable(request, *admission->refusal);
  if (!displaced.has_value() || !FitsWithout(*displaced, request)) {
    return;
  }
  admission->refusal = std::nullopt;
  admission->displaced = displaced;
  admission->retry_delay = RetryDelay();
  Forget(*displaced);
  ++totals_.displaced;
}

Scheduler::Admission Scheduler::Admit(JobRequest request, TimePoint now) {
  Admission admission;
  if (CannotMeetDeadline(request, now)) {
    admission.refusal = Refusal::kDeadline;
  } else if (admission.refusal = FindRefusal(request); admission.refusal.has_value()) {
    MakeRoom(request, &admission);
  }
  if (admission.refusal.has_value()) {
    admission.retry_delay = RetryDelay();
    ++totals_.refused[static_cast<size_t>(*admission.refusal)];
    return admission;
  }

  ++totals_.accepted;
  const JobId id = request.id;
  displaceable_.ChangeHeld(&loads_[request.client].held, 1, request.tokens);
  ++queued_[Index(request.priority)];
  queued_tokens_ += request.tokens;
  if (request.deadline != TimePoint::max()) {
    deadlines_.insert({request.deadline, id});
  }
  Job& job = jobs_[id];
  job.arrival = now;
  job.remaining_tokens = request.tokens;
  job.counted_tokens = request.tokens;
  job.request = std::move(request);
  StartWaiting(id, FairQueue::End::kBack);
  return admission;
}

void Scheduler::RecordForward(const ScheduledBatch& batch, std::chrono::duration<double> duration) {
  rates_.Record(batch.size_tokens, batch.tokens, duration.count());
}

}  // namespace canopy
