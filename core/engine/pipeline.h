// The engine's threads around the scheduler: one plans the next forward while another, the only one
// that touches the device, runs this one, and an alarm ends jobs at their deadline, whatever the
// device does.
//
//   caller          Submit -> scheduler -.
//   planning thread        takes a turn, builds its forward -> the place before the device
//   device thread          launches it, absorbs the results, answers or continues jobs
//   alarm, caller          Expire, Cancel: answered at once; never launched afterwards
//   any other              RunOnDevice: a piece of work for the device thread between forwards
//
// While the device is busy, the forward in the place before it may still change: it grows when a
// job arrives that can share it, and a part of a large job lets a small job go first. While it is
// idle, or its forwards are shorter than a hand-over, the device thread plans for itself.
#ifndef CORE_ENGINE_PIPELINE_H_
#define CORE_ENGINE_PIPELINE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/alarm.h"
#include "base/mutex.h"
#include "core/engine/engine_stats.h"
#include "core/engine/forward.h"
#include "core/engine/job_run.h"
#include "core/engine/scheduler.h"
#include "core/engine/types.h"

namespace canopy {

// What jobs end with once the device was lost.
absl::Status UnhealthyError();

// Thread-safe. The destructor drains.
class Pipeline {
 public:
  // Called exactly once a job, from any of the threads above: it must not block.
  using Callback = std::function<void(absl::StatusOr<ScoreResult>)>;
  using ForwardObserver = std::function<void(const ForwardRecord&)>;

  // `observer`, which may be null, is called on the device thread after each forward.
  Pipeline(const Scheduler::Options& options, ForwardObserver observer);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // OK = `done` will be called. UNAVAILABLE when draining, DEADLINE_EXCEEDED when the deadline has
  // passed, RESOURCE_EXHAUSTED with RetryAfter when the scheduler refuses.
  absl::Status Submit(const JobRequest& request, std::unique_ptr<JobRun> run, Callback done);
  // Answers an unanswered job with CANCELLED.
  void Cancel(JobId id);
  // Runs `work` on the device thread between two forwards, and returns what it does. UNAVAILABLE,
  // and it never runs, when draining. Must have returned before the destructor is called.
  absl::Status RunOnDevice(const std::function<absl::Status()>& work);
  void Drain();

  EngineStats stats() const;
  bool healthy() const { return healthy_.load(std::memory_order_relaxed); }

 private:
  struct Job;
  struct Planned;
  struct Ended;
  struct DeviceWork;

  void PlanLoop();
  void DeviceLoop();
  void Ring();

  // A turn that waits for the device may change until the device waits for it.
  bool MayRevise() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return pending_.has_value() && !device_idle_;
  }
  bool ShouldPlan() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return (plan_wanted_ && !pending_.has_value()) || (revise_ && planned_ != nullptr);
  }
  void PlanTurn() ABSL_LOCKS_EXCLUDED(mutex_);
  std::unique_ptr<Planned> TakeTurn(std::vector<Ended>* ended)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static absl::Status BuildForward(Planned* planned);
  void Shorten(Planned* planned) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Place(std::unique_ptr<Planned> planned) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndFailed(const Planned& planned, const absl::Status& status, std::vector<Ended>* ended)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReturnTurn(const Turn& turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsCurrent(const Planned& planned) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::unique_ptr<Planned> NextForward();
  bool HasForward() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return planned_ != nullptr && !revise_;
  }
  std::unique_ptr<Planned> Launch(std::vector<Ended>* ended) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  DeviceWork* TakeWork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunWork(DeviceWork* work) ABSL_LOCKS_EXCLUDED(mutex_);
  void Run(Planned* planned);
  void RunSmaller(Planned* planned);
  // Takes what a forward made of a job: answers it, or lets it run again.
  void Conclude(const Job& job, absl::StatusOr<JobRun::Progress> progress)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the route of a job that it ends with a result.
  std::optional<Route> Settle(const Job& job, absl::StatusOr<JobRun::Progress> progress,
                              std::vector<Ended>* ended) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Restart(JobId id, std::shared_ptr<Pass> pass) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteHealth(const absl::Status& status);
  static void NoteMemory(const Planned& planned, const absl::Status& status);
  // Without the lock: whoever reads the log may be slow.
  void LogFallbackOnce(const Route& route) ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends a job that nobody waits for any more, or that lost its place.
  void EndEarly(JobId id, absl::Status status, std::vector<Ended>* ended)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(JobId id, absl::StatusOr<ScoreResult> result, std::vector<Ended>* ended)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ExpireJobs(std::vector<Ended>* ended) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetAlarm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Calls back, without the lock.
  void Deliver(std::vector<Ended> ended) ABSL_LOCKS_EXCLUDED(mutex_);

  const Scheduler::Options options_;
  const ForwardObserver observer_;

  mutable Mutex mutex_;
  Scheduler scheduler_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<JobId, std::shared_ptr<Job>> jobs_ ABSL_GUARDED_BY(mutex_);  // unanswered
  // The turn that is being planned, or waits for the device as planned_.
  std::optional<Turn> pending_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Planned> planned_ ABSL_GUARDED_BY(mutex_);
  bool plan_wanted_ ABSL_GUARDED_BY(mutex_) = false;  // something may be there to take
  bool revise_ ABSL_GUARDED_BY(mutex_) = false;       // another turn may be better than pending_
  std::deque<DeviceWork*> device_work_ ABSL_GUARDED_BY(mutex_);  // waits; owned by its callers
  bool work_had_last_ ABSL_GUARDED_BY(mutex_) = false;           // a forward that waits goes next
  bool device_idle_ ABSL_GUARDED_BY(mutex_) = false;
  bool plan_ahead_ ABSL_GUARDED_BY(mutex_) = false;  // the device is busy for long enough
  bool running_ ABSL_GUARDED_BY(mutex_) = false;     // a forward is on the device
  int64_t delivering_ ABSL_GUARDED_BY(mutex_) = 0;   // answers on their way to their callers
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  TimePoint alarm_at_ ABSL_GUARDED_BY(mutex_) = TimePoint::max();
  EngineStats stats_ ABSL_GUARDED_BY(mutex_);  // what the scheduler does not count

  std::atomic<bool> healthy_{true};
  absl::flat_hash_set<Reason> logged_reasons_;  // device thread only
  // Last: they use everything above. The threads use the alarm.
  Alarm alarm_;
  std::thread planning_thread_;
  std::thread device_thread_;
};

}  // namespace canopy

#endif  // CORE_ENGINE_PIPELINE_H_
