// The states of the forward that is planned, waits and runs: a state machine around the scheduler,
// without threads or a clock of its own. The engine's threads call it under their mutex and do what
// it returns.
//
// The next forward and the device each have a state. One forward may be planned while another runs.
//
//   next    kEmpty --StartPlanning--> kPlanning --EndPlanning--> kPlanned --Launch--> kEmpty
//           If a job of the forward ends or gets a new pass, its jobs return to the queue: kEmpty.
//           While the device is busy, an event may make the forward stale: a stale forward is
//           never launched, but planned once more.
//   device  kIdle --Launch--> kRunning --Finish--> kIdle
//           kIdle --StartWork--> kWorking --FinishWork--> kIdle
//
// Events of jobs: Arrive, Cancel, Expire, Restart, End. After Drain no job arrives.
//
// A call that the state does not permit changes nothing and returns null or false.
#ifndef CORE_ENGINE_FORWARD_STATES_H_
#define CORE_ENGINE_FORWARD_STATES_H_

#include <chrono>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/engine/forward.h"
#include "core/engine/planned_forward.h"
#include "core/engine/scheduler.h"
#include "core/engine/types.h"

namespace canopy {

// Thread-compatible. Never calls a job's `run` or `done`.
class ForwardStates {
 public:
  using Jobs = std::vector<std::shared_ptr<AdmittedJob>>;

  enum class Next { kEmpty, kPlanning, kPlanned };
  enum class Device { kIdle, kRunning, kWorking };
  // The next action of an idle device.
  enum class Step { kWait, kPlan, kLaunch, kWork };

  struct Arrival {
    bool draining = false;           // the job was refused because the engine drains
    Scheduler::Admission admission;  // the scheduler's answer otherwise
    // the job whose place the new job took, which has ended; or null
    std::shared_ptr<AdmittedJob> displaced;
  };

  explicit ForwardStates(const Scheduler::Options& options) : scheduler_(options) {}

  // Admits `job`, which has the id of `request` and a pass, or refuses it.
  Arrival Arrive(const JobRequest& request, const std::shared_ptr<AdmittedJob>& job, TimePoint now);
  // Ends a job that nobody waits for any more. Returns null if the job has ended already.
  std::shared_ptr<AdmittedJob> Cancel(JobId id);
  // Ends the jobs whose deadline is not after `now`, and returns them. Call it at next_alarm().
  Jobs Expire(TimePoint now);
  // Replaces a job's remaining work by `pass`. Returns false if the job has ended.
  bool Restart(JobId id, std::shared_ptr<Pass> pass);
  // Ends a job with its answer. Returns null if the job has ended already.
  std::shared_ptr<AdmittedJob> End(JobId id);
  void Drain() { draining_ = true; }

  // Takes the jobs of the next forward. If the result is not `built`, the caller builds it; then it
  // calls EndPlanning or FailPlanning. Null if there is nothing to plan. Jobs that expire first are
  // appended to `expired`.
  std::unique_ptr<PlannedForward> StartPlanning(TimePoint now, Jobs* expired);
  // Lets the forward wait for the device. Its jobs return to the queue instead if one of them has
  // ended or has a new pass. Returns false if `planned` is not the result of the last
  // StartPlanning.
  bool EndPlanning(std::unique_ptr<PlannedForward> planned);
  // Ends the jobs of a forward that cannot be built. Returns those that had not ended before.
  Jobs FailPlanning(std::unique_ptr<PlannedForward> planned);

  // Returns what the device thread does next; `has_work` = other work for the device waits. Such
  // work and forwards alternate when both wait.
  Step NextStep(bool has_work) const;
  // Returns the forward that the device must run now. Returns null if no forward is ready, if the
  // device is busy, or if a job of the forward has ended: the other jobs then return to the queue.
  // Appends jobs that expire first to `expired`.
  std::unique_ptr<PlannedForward> Launch(TimePoint now, Jobs* expired);
  // Records that the forward took `duration`, which later decisions use.
  void RecordForward(const ScheduledBatch& batch, std::chrono::duration<double> duration) {
    scheduler_.RecordForward(batch, duration);
  }
  bool Finish();
  bool StartWork();
  bool FinishWork();

  // CanPlan returns true if any thread may call StartPlanning with effect. CanPlanAhead does so for
  // the planning thread: it plans only while the device is busy for long enough to make the
  // hand-over worthwhile.
  bool CanPlan() const {
    return (next_ == Next::kEmpty && may_take_) || (next_ == Next::kPlanned && stale_);
  }
  bool CanPlanAhead() const { return plan_ahead_ && CanPlan(); }
  bool CanLaunch() const { return device_ == Device::kIdle && next_ == Next::kPlanned && !stale_; }

  Next next() const { return next_; }
  Device device() const { return device_; }
  bool stale() const { return stale_; }
  bool draining() const { return draining_; }
  bool HasJob(JobId id) const { return jobs_.contains(id); }
  // Returns true if no job is left and no forward runs.
  bool idle() const { return jobs_.empty() && device_ != Device::kRunning; }
  // Returns when Expire should be called next; max = never.
  TimePoint next_alarm() const;
  // Returns the scheduler, for its counts.
  const Scheduler& scheduler() const { return scheduler_; }

 private:
  std::shared_ptr<AdmittedJob> Remove(JobId id);
  // Removes a job that the scheduler has forgotten already.
  std::shared_ptr<AdmittedJob> RemoveEarly(JobId id);
  bool MayRevise() const { return next_ != Next::kEmpty && device_ != Device::kIdle; }
  bool IsCurrent(const PlannedForward& planned) const;
  bool IsPlanning(const PlannedForward* planned) const {
    return next_ == Next::kPlanning && planned != nullptr && planned->batch.jobs == batch_.jobs;
  }
  std::unique_ptr<PlannedForward> Begin(ScheduledBatch batch);
  void AdjustTokens(PlannedForward* planned);
  void ReturnBatch(const ScheduledBatch& batch);

  Scheduler scheduler_;
  absl::flat_hash_map<JobId, std::shared_ptr<AdmittedJob>> jobs_;  // those that have not ended
  Next next_ = Next::kEmpty;
  Device device_ = Device::kIdle;
  ScheduledBatch batch_;                     // of the next forward; unspecified if next_ is kEmpty
  std::unique_ptr<PlannedForward> planned_;  // the next forward; null unless kPlanned
  bool stale_ = false;       // the next forward must be planned once more; false if kEmpty
  bool may_take_ = false;    // the scheduler may have jobs to take; true unless next_ is kEmpty
  bool plan_ahead_ = false;  // the device is busy for long enough
  bool device_work_ran_last_ = false;  // a forward that is ready goes before other work
  bool draining_ = false;
};

}  // namespace canopy

#endif  // CORE_ENGINE_FORWARD_STATES_H_
