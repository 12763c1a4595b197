// Which jobs are taken in, and which run together next: a state machine without threads or a clock
// of its own.
//
//   Admit     a job waits, or is refused: a full queue, or a deadline that cannot be met
//   Take      the jobs of the next forward; Return puts them back if it will not be launched,
//             Truncate those of them that it turns out to have no use for
//   AdjustTokens   the forward turns out to compute more than was estimated; AdjustToPart: to be a
//   part
//             of its job
//   Launch    the forward starts
//   Continue  a job needs a further forward: its next part, or a run of what went wrong
//   Finish    the job is answered; Cancel and Expire end those that nobody waits for
//
// Order: between clients by FairQueue, in tokens; within a client as they came, but that a job in
// parts lets its client's whole jobs go first once before each part. Low priority
// runs when no normal job waits; what has waited for `low_priority_patience` takes every second
// forward, so that it never starves. Jobs of one share key run together up to the batch limits,
// whoever sent them; others run alone.
//
// A job counts against the queue's limit of requests until its last known forward is launched, and
// against that of tokens with those forwards alone that were not launched. When the queue is full,
// a job still gets in at the cost of one that has not begun: a low one for a normal one, or the
// newest of a client that holds more of the queue than the sender would.
//
// A job is refused for its deadline only if others wait before it, and forwards of like size, or
// measured costs, show that the device takes too long for them at the least.
#ifndef CORE_ENGINE_SCHEDULER_H_
#define CORE_ENGINE_SCHEDULER_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/time/time.h"
#include "core/engine/batch_tokens.h"
#include "core/engine/displacement_index.h"
#include "core/engine/drain_rates.h"
#include "core/engine/fair_queue.h"
#include "core/engine/types.h"
#include "core/engine/waiting_work.h"

namespace canopy {

using TimePoint = std::chrono::steady_clock::time_point;
using std::chrono::microseconds;

// What the scheduler knows of a job.
struct JobRequest {
  JobId id = 0;           // not in use by an unanswered job
  std::string client;     // one connection
  std::string share_key;  // jobs of one key may run together; empty = alone
  Priority priority = Priority::kNormal;
  int64_t tokens = 0;          // that the device computes for it, estimated; >= 1
  int64_t device_bytes = 0;    // that it takes on the device, estimated; >= 0
  int64_t forecast_nanos = 0;  // its least time by measured costs; 0 = there are none
  TimePoint deadline = TimePoint::max();
};

enum class Refusal { kQueuedRequests, kQueuedTokens, kDeadline };
inline constexpr int kNumRefusals = 3;

// One forward.
struct ScheduledBatch {
  std::vector<JobId> jobs;  // the first decided what may join; all of one share key if several
  std::string share_key;
  int64_t tokens = 0;       // estimated, of all jobs
  int64_t size_tokens = 0;  // as what its time is recorded (WaitingWork::BatchSize)
  int64_t device_bytes = 0;
};

// Thread-compatible.
class Scheduler {
 public:
  struct Options {
    int64_t max_batch_tokens = kCpuBatchTokens;     // computed tokens of one forward; > 0
    int64_t max_batch_bytes = int64_t{4} << 30;     // estimated device bytes of a shared one; > 0
    int32_t max_queued_requests = 1'024;            // that wait; >= 1
    int64_t max_queued_tokens = int64_t{16} << 20;  // computed tokens of those; >= 1
    // How long a forward that may be shared waits for company; zero = not at all.
    absl::Duration batch_window = absl::ZeroDuration();
    // After this, low priority gets every second forward though others wait; >= 0.
    absl::Duration low_priority_patience = absl::Seconds(2);
  };

  struct Admission {
    std::optional<Refusal> refusal;  // nothing = the job waits
    microseconds retry_delay{0};     // with a refusal or a displaced job
    std::optional<JobId> displaced;  // lost its place to the new one and is forgotten
  };

  // Each accepted job ends in one of the others.
  struct Totals {
    int64_t accepted = 0;
    int64_t answered = 0;
    int64_t displaced = 0;
    int64_t expired = 0;
    int64_t cancelled = 0;
    std::array<int64_t, kNumRefusals> refused{};  // not accepted
  };

  explicit Scheduler(const Options& options);

  // One job larger than the token limit still gets into an empty queue.
  Admission Admit(JobRequest request, TimePoint now);

  // Nothing when no job waits, or the batch window holds them until held_until(). Call Expire
  // before.
  std::optional<ScheduledBatch> Take(TimePoint now);
  // The batch will not be launched. Jobs that have ended meanwhile are left out.
  void Return(const ScheduledBatch& batch);
  // Only the first `num_jobs` of the batch, at least one, will be launched: the others wait again,
  // and none joins any more.
  void Truncate(ScheduledBatch* batch, size_t num_jobs);
  // The forward of a batch of one job computes `tokens`. If they exceed what the batch was charged,
  // the client is charged the difference. Batches of several jobs are left as they are: each job is
  // charged what it would compute alone, whoever's tokens the forward shares.
  void AdjustTokens(const ScheduledBatch& batch, int64_t tokens);
  // The forward of a batch of one job is one of several parts of it, and computes `tokens`: the
  // client is charged exactly them, the batch is recorded under them, and no other job joins it.
  void AdjustToPart(ScheduledBatch* batch, int64_t tokens);
  void Launch(const ScheduledBatch& batch);

  // The job, which must not be waiting, needs further forwards of `tokens` in all, about
  // `next_tokens` in each, where that is less than a batch. It shares none of them, and none that
  // is in hand.
  void Continue(JobId id, int64_t tokens,
                int64_t next_tokens = std::numeric_limits<int64_t>::max());
  void Finish(JobId id);
  // False when it has ended.
  bool Cancel(JobId id);
  // Ends jobs whose deadline is not after `now`, waiting or not.
  std::vector<JobId> Expire(TimePoint now);

  // The device computed the batch in `duration`. The evidence for retry delays and for deadlines
  // that cannot be met.
  void RecordForward(const ScheduledBatch& batch, std::chrono::duration<double> duration);

  // How long the device takes for `tokens` by the mean of recent forwards of any size; max = none
  // was recorded. A hint: nothing is refused by it.
  std::chrono::duration<double> Forecast(int64_t tokens) const;

  // Whether taking again would give `batch` company or let others go before its large job. A hint.
  bool WouldChange(const ScheduledBatch& batch, JobId arrived) const;

  bool IsWaiting(JobId id) const;
  bool has_waiting() const { return !queues_[0].empty() || !queues_[1].empty(); }
  bool idle() const { return jobs_.empty(); }
  TimePoint next_deadline() const;  // max = none
  TimePoint held_until() const { return held_until_; }
  // Jobs that count against the queue's limits.
  int64_t queued_requests(Priority priority) const { return queued_[Index(priority)]; }
  // Tokens of their forwards that were not launched.
  int64_t queued_tokens() const { return queued_tokens_; }
  const Totals& totals() const { return totals_; }
  const Options& options() const { return options_; }

 private:
  struct Job {
    JobRequest request;
    TimePoint arrival;
    int64_t remaining_tokens = 0;  // of forwards that are not taken yet
    bool waiting = false;
    // That one forward of it is estimated to have, at most.
    int64_t part_tokens = std::numeric_limits<int64_t>::max();
    bool in_parts = false;       // known to run in several forwards: Continue was called
    bool counted = true;         // against the queue's limits
    bool begun = false;          // a forward of it was launched
    bool in_batch = false;       // taken, and neither launched nor returned
    bool yielded = false;        // let others go first; not again before it is launched
    bool waits_unsplit = false;  // waits, and not for a part
    bool displaceable = false;
    int64_t taken_tokens = 0;    // that the client was charged for the job's last batch
    int64_t taken_at = 0;        // FairQueue::clock() when the job was last taken
    int64_t counted_tokens = 0;  // against the queue's limit
    Work work;                   // what WaitingWork has of it while it waits
    FairQueue::Place place;
  };
  // What one client has in the queue.
  struct ClientLoad {
    DisplacementIndex::Client held;            // counted against the limits
    int64_t waiting_tokens = 0;                // that the device will compute for jobs that wait
    std::array<int64_t, 2> waiting_unsplit{};  // jobs that wait and run in one forward, by priority
    bool empty() const {
      return held.held(DisplacementIndex::Measure::kRequests) == 0 && waiting_tokens == 0;
    }
  };

  static int Index(Priority priority) { return priority == Priority::kLow ? 1 : 0; }
  FairQueue& QueueOf(const Job& job) { return queues_[Index(job.request.priority)]; }
  int64_t NextForwardTokens(const Job& job) const;
  bool MayShare(const JobRequest& request) const;
  bool CanShare(const Job& job) const;
  // Runs in several forwards.
  bool InParts(const Job& job) const;

  std::optional<Refusal> FindRefusal(const JobRequest& request) const;
  std::optional<JobId> FindDisplaceable(const JobRequest& request, Refusal refusal);
  bool FitsWithout(JobId displaced, const JobRequest& request) const;
  bool CannotMeetDeadline(const JobRequest& request, TimePoint now);
  void MakeRoom(const JobRequest& request, Admission* admission);
  microseconds RetryDelay() const;

  std::optional<JobId> PickFirst(TimePoint now);
  std::optional<JobId> PickFair(int priority);
  bool Fill(ScheduledBatch* batch);
  void TakeJob(JobId id, ScheduledBatch* batch);
  void PutBack(const ScheduledBatch& batch);
  TimePoint EarliestArrival(const ScheduledBatch& batch) const;
  void StartWaiting(JobId id, FairQueue::End end);
  void StopWaiting(JobId id);
  void UpdateDisplaceable(JobId id, Job* job);
  void AddWork(Job* job);
  void RemoveWork(Job* job);
  void UpdateCount(Job* job);
  void ForgetIfIdle(const std::string& client);
  void Uncount(JobId id);
  void Forget(JobId id);

  const Options options_;
  absl::flat_hash_map<JobId, Job> jobs_;
  std::array<FairQueue, 2> queues_;                            // by priority
  absl::btree_set<std::pair<TimePoint, JobId>> deadlines_;     // of jobs that have one
  absl::btree_set<std::pair<TimePoint, JobId>> low_arrivals_;  // of low jobs that wait
  absl::node_hash_map<std::string, ClientLoad> loads_;         // of clients with counted jobs
  std::array<int64_t, 2> queued_{};
  int64_t queued_tokens_ = 0;
  DisplacementIndex displaceable_;
  std::array<WaitingWork, 2> waiting_work_;  // by priority
  DrainRates rates_;
  bool low_priority_went_last_ = false;
  TimePoint held_until_ = TimePoint::max();
  Totals totals_;
};

}  // namespace canopy

#endif  // CORE_ENGINE_SCHEDULER_H_
