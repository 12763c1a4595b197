// Decides which jobs are admitted and which jobs run together next. A state machine without threads
// or a clock of its own.
//
//   Admit         adds a job to the queue, or refuses it: the queue is full, or the deadline cannot
//                 be met
//   Take          takes the jobs of the next forward out of the queue
//   Return        puts the jobs back if the forward will not be launched
//   Truncate      puts those jobs back that do not fit the forward
//   AdjustTokens  corrects the charge if the forward computes more than was estimated
//   AdjustToPart  corrects the charge if the forward is one of several parts of its job
//   Launch        records that the forward starts
//   Continue      queues a further forward of a job: its next part, or a rerun
//   Finish        removes a job that is answered; Cancel and Expire remove jobs that nobody waits
//   for
//
// Order: FairQueue orders clients by the tokens that they were served. The jobs of one client run
// in order of arrival, except that a job in parts lets the unsplit jobs of its client go first,
// once before each part. A low job runs if no normal job waits. Low jobs that have waited for
// `low_priority_patience` get every second forward, so that they never starve. Jobs with the same
// share key run together up to the batch limits, whichever client sent them. All other jobs run
// alone.
//
// A job counts against the queue's request limit until its last known forward is launched. Only its
// forwards that were not launched count against the token limit. If the queue is full, a new job
// can still displace a job that has not begun: a normal job displaces a low one, and any job
// displaces the newest job of a client that holds more of the queue than its sender would.
//
// A job is refused for its deadline only if other jobs are ahead of it, and forwards of similar
// size, or measured costs, show that the device needs too long for them even at best.
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

// The properties of a job that the scheduler uses.
struct JobRequest {
  JobId id = 0;           // unique among unanswered jobs
  std::string client;     // one connection
  std::string share_key;  // jobs with the same key may run together; empty = the job runs alone
  Priority priority = Priority::kNormal;
  int64_t tokens = 0;        // the estimated number of tokens that the device computes; >= 1
  int64_t device_bytes = 0;  // the estimated device memory; >= 0
  // the lower bound of the job's time by measured costs; 0 = no costs are known
  int64_t forecast_nanos = 0;
  TimePoint deadline = TimePoint::max();
};

enum class Refusal { kQueuedRequests, kQueuedTokens, kDeadline };
inline constexpr int kNumRefusals = 3;

// The jobs of one forward.
struct ScheduledBatch {
  // the first job decides which jobs may join; several jobs have the same share key
  std::vector<JobId> jobs;
  std::string share_key;
  int64_t tokens = 0;  // the estimate for all jobs
  // the size under which the forward's time is recorded (WaitingWork::BatchSize)
  int64_t size_tokens = 0;
  int64_t device_bytes = 0;
};

// Thread-compatible.
class Scheduler {
 public:
  struct Options {
    int64_t max_batch_tokens = kCpuBatchTokens;  // the most tokens that one forward computes; > 0
    // the most estimated device bytes of a shared forward; > 0
    int64_t max_batch_bytes = int64_t{4} << 30;
    int32_t max_queued_requests = 1'024;  // the most waiting requests; >= 1
    // the most computed tokens of waiting requests; >= 1
    int64_t max_queued_tokens = int64_t{16} << 20;
    // How long a forward that may be shared waits for further jobs. Zero = it does not wait.
    absl::Duration batch_window = absl::ZeroDuration();
    // After this time, low jobs get every second forward even if normal jobs wait; >= 0.
    absl::Duration low_priority_patience = absl::Seconds(2);
  };

  struct Admission {
    std::optional<Refusal> refusal;  // nullopt = the job was admitted
    microseconds retry_delay{0};     // set with a refusal or a displaced job
    // the job that lost its place to the new one; the scheduler has removed it
    std::optional<JobId> displaced;
  };

  // Each accepted job is counted once more when it ends: as answered, displaced, expired or
  // cancelled.
  struct Totals {
    int64_t accepted = 0;
    int64_t answered = 0;
    int64_t displaced = 0;
    int64_t expired = 0;
    int64_t cancelled = 0;
    std::array<int64_t, kNumRefusals> refused{};  // not counted as accepted
  };

  explicit Scheduler(const Options& options);

  // Admits or refuses a job. An empty queue admits a job even if it exceeds the token limit.
  Admission Admit(JobRequest request, TimePoint now);

  // Takes the jobs of the next forward. Returns nullopt if no job waits, or if the batch window
  // holds the jobs until held_until(). Call Expire first.
  std::optional<ScheduledBatch> Take(TimePoint now);
  // Puts the jobs of a batch that will not be launched back into the queue, except jobs that have
  // ended.
  void Return(const ScheduledBatch& batch);
  // Keeps the first `num_jobs` jobs of the batch, at least one. The others return to the queue, and
  // no job joins the batch any more.
  void Truncate(ScheduledBatch* batch, size_t num_jobs);
  // Tells the scheduler that the forward of a batch with one job computes `tokens`. If the client
  // was charged less, it is charged the difference. Has no effect on a batch of several jobs: each
  // of them is charged for the tokens that it would compute alone.
  void AdjustTokens(const ScheduledBatch& batch, int64_t tokens);
  // Tells the scheduler that the forward of a batch with one job is one of several parts of the job
  // and computes `tokens`. The client is charged exactly these tokens, the batch is recorded under
  // them, and no other job joins it.
  void AdjustToPart(ScheduledBatch* batch, int64_t tokens);
  void Launch(const ScheduledBatch& batch);

  // Queues further forwards of a job that is not waiting: `tokens` in all, and about `next_tokens`
  // in each if that is less than a batch. Neither these forwards nor a batch that already contains
  // the job are shared with other jobs.
  void Continue(JobId id, int64_t tokens,
                int64_t next_tokens = std::numeric_limits<int64_t>::max());
  void Finish(JobId id);
  // Returns false if the job has ended.
  bool Cancel(JobId id);
  // Ends the jobs whose deadline is not after `now`, waiting or not, and returns them.
  std::vector<JobId> Expire(TimePoint now);

  // Records that the device computed the batch in `duration`. Retry delays and refusals for
  // deadlines are based on these records.
  void RecordForward(const ScheduledBatch& batch, std::chrono::duration<double> duration);

  // Returns the time that the device takes for `tokens`, by the mean of recent forwards of any
  // size; max if none was recorded. A hint: no job is refused because of it.
  std::chrono::duration<double> Forecast(int64_t tokens) const;

  // Returns whether taking the batch again would let `arrived` join it, or go before its large job.
  // A hint.
  bool WouldChange(const ScheduledBatch& batch, JobId arrived) const;

  bool IsWaiting(JobId id) const;
  bool has_waiting() const { return !queues_[0].empty() || !queues_[1].empty(); }
  bool idle() const { return jobs_.empty(); }
  TimePoint next_deadline() const;  // max = no job has a deadline
  TimePoint held_until() const { return held_until_; }
  // Returns the number of jobs that count against the queue's limits.
  int64_t queued_requests(Priority priority) const { return queued_[Index(priority)]; }
  // Returns the number of tokens in these jobs' forwards that have not been launched.
  int64_t queued_tokens() const { return queued_tokens_; }
  const Totals& totals() const { return totals_; }
  const Options& options() const { return options_; }

 private:
  struct Job {
    JobRequest request;
    TimePoint arrival;
    int64_t remaining_tokens = 0;  // the tokens of forwards that are not taken yet
    bool waiting = false;
    // The most tokens that one forward of the job is estimated to have.
    int64_t part_tokens = std::numeric_limits<int64_t>::max();
    bool in_parts = false;  // the job is known to run in several forwards: Continue was called
    bool counted = true;    // the job counts against the queue's limits
    bool begun = false;     // a forward of the job was launched
    bool in_batch = false;  // the job is in a batch that is neither launched nor returned
    // the job let others go first, and does not do so again before it is launched
    bool yielded = false;
    bool waits_unsplit = false;  // the job waits and is not in parts
    bool displaceable = false;
    int64_t taken_tokens = 0;    // the tokens that the client was charged for the job's last batch
    int64_t taken_at = 0;        // FairQueue::clock() when the job was last taken
    int64_t counted_tokens = 0;  // the tokens that count against the queue's limit
    Work work;                   // the entry of WaitingWork while the job waits
    FairQueue::Place place;
  };
  // The jobs that one client has in the queue.
  struct ClientLoad {
    DisplacementIndex::Client held;  // the jobs that count against the limits
    int64_t waiting_tokens = 0;      // the tokens that the device will compute for waiting jobs
    std::array<int64_t, 2> waiting_unsplit{};  // waiting jobs that run in one forward, by priority
    bool empty() const {
      return held.held(DisplacementIndex::Measure::kRequests) == 0 && waiting_tokens == 0;
    }
  };

  static int Index(Priority priority) { return priority == Priority::kLow ? 1 : 0; }
  FairQueue& QueueOf(const Job& job) { return queues_[Index(job.request.priority)]; }
  int64_t NextForwardTokens(const Job& job) const;
  bool MayShare(const JobRequest& request) const;
  bool CanShare(const Job& job) const;
  // Returns whether the job runs in several forwards.
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
  absl::btree_set<std::pair<TimePoint, JobId>> deadlines_;     // of jobs that have a deadline
  absl::btree_set<std::pair<TimePoint, JobId>> low_arrivals_;  // of low jobs that wait
  // of clients with jobs that count against the limits
  absl::node_hash_map<std::string, ClientLoad> loads_;
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
