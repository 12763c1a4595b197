// Runs jobs: admission, batching on demand, and the threads around the device. Does not need gRPC.
//
//   1. Submit admits a job or refuses it at once: draining, unknown model, full queue.
//   2. The scheduler (core/engine/scheduler.h) picks the jobs that run next. It is fair between
//      clients, knows two priorities, and batches jobs that may share a forward.
//   3. The planning thread builds the next forward while the device thread runs the previous one.
//      A job that exceeds the token budget runs in parts, and other jobs run between its parts.
//   4. Questions with a hidden state that is not finite run again path by path, because masked
//      attention spreads a NaN (0 x NaN) to paths that would be finite alone.
//   5. A head over whole questions scores them from the vectors of all parts.
//   6. Weights may be replaced at any time. One version answers all of a job: the version that
//      its first forward was planned with.
//   7. The callback receives the result, DEADLINE_EXCEEDED or CANCELLED, exactly once.
//
// ForwardStates (core/engine/forward_states.h) makes the decisions, and these threads carry them
// out:
//
//   caller          calls Submit and Cancel; gets a refusal or a cancellation at once
//   planning thread builds the next forward while the device is busy
//   device thread   runs forwards, handles their outputs, answers or continues jobs; between
//                   forwards it does the work of RunOnDevice. It builds the next forward itself if
//                   it is idle, or if forwards are shorter than a hand-over between threads.
//   alarm thread    ends jobs at their deadline, even if the device is busy
#ifndef CORE_ENGINE_ENGINE_H_
#define CORE_ENGINE_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/alarm.h"
#include "base/mutex.h"
#include "core/engine/engine_stats.h"
#include "core/engine/forward_states.h"
#include "core/engine/job_run.h"
#include "core/engine/model_runner.h"
#include "core/engine/planned_forward.h"
#include "core/engine/scheduler.h"
#include "core/engine/served_model.h"
#include "core/engine/types.h"
#include "core/tree/tree_plan.h"

namespace canopy {

// Thread-safe. The destructor drains the engine.
class Engine {
 public:
  // Called exactly once per job, from any of the threads above. It must not block.
  using Callback = std::function<void(absl::StatusOr<ScoreResult>)>;
  using ForwardObserver = std::function<void(const ForwardRecord&)>;

  struct Options {
    Scheduler::Options scheduler;
    bool share_across_tenants = false;         // requests of different tenants may share prefixes
    Backend default_backend = Backend::kAuto;  // for requests that name neither backend nor policy
    Packing default_packing = Packing::kAuto;  // for requests that name neither packing nor policy
    int64_t max_mask_bytes = kDefaultMaxMaskBytes;  // for requests that name no limit; >= 0
    ForwardObserver on_forward;                     // called on the device thread; may be null
  };

  // Returns INVALID_ARGUMENT if an option is out of range, if there is no model, or if two models
  // have the same name, and FAILED_PRECONDITION if a model does not have the default backend.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(
      const Options& options, std::vector<std::unique_ptr<ModelRunner>> runners);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Returns an id for a job that is not submitted yet, so that Cancel works as soon as it is.
  JobId NewJobId() { return next_job_id_.fetch_add(1, std::memory_order_relaxed); }

  // Submits a job. If the result is OK, `done` is called exactly once, on any thread; it must not
  // block. Otherwise `done` is never called.
  //
  // Returns
  //   UNAVAILABLE         the engine drains
  //   NOT_FOUND           the model is not loaded
  //   DEADLINE_EXCEEDED   the deadline has passed
  //   RESOURCE_EXHAUSTED  with RetryAfter: the queue is full, or too long for the deadline
  // `done` receives
  //   the result
  //   DEADLINE_EXCEEDED, CANCELLED  at once, even if the device is busy
  //   RESOURCE_EXHAUSTED  with RetryAfter: a full queue gave the job's place to another job; or
  //                       PATH_TOO_LARGE_FOR_DEVICE or QUESTION_TOO_LARGE_FOR_DEVICE
  //   the errors of RequestPlan::Create and of the runner
  absl::Status Submit(ScoreJob job, Callback done) ABSL_LOCKS_EXCLUDED(mutex_);

  // Answers the job with CANCELLED at once and launches no further forward for it. Has no effect if
  // the job is answered already or was not submitted.
  void Cancel(JobId id) ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns the plan by which `job` would run, with its trie. Plans on the caller's thread. Returns
  // NOT_FOUND if the model is not loaded, or the errors of RequestPlan::Create.
  absl::StatusOr<RequestPlan> Plan(const ScoreJob& job) const;

  // The loaded models in the versions that serve now; the first is the default. FindModel returns
  // the first model for an empty name, and null for an unknown name.
  std::vector<std::shared_ptr<const ModelInfo>> models() const;
  std::shared_ptr<const ModelInfo> FindModel(absl::string_view name) const;

  // Replaces the model that has the name of `next`. `next` answers the jobs whose first forward is
  // planned from now on. The old weights answer the jobs that they have begun, and are freed after
  // the last of them. No job waits. Returns NOT_FOUND, or the errors of ServedModel::Replace.
  absl::Status ReplaceModel(std::shared_ptr<ModelRunner> next,
                            absl::string_view expected_fingerprint);

  // Runs `work` on the device thread between two forwards and returns its status. New weights are
  // prepared this way while the old weights serve. Returns UNAVAILABLE without running `work` if
  // the engine drains. The call must return before the destructor is called.
  absl::Status RunOnDevice(const std::function<absl::Status()>& work) ABSL_LOCKS_EXCLUDED(mutex_);

  // Refuses new jobs with UNAVAILABLE, finishes the accepted ones, then returns. May be called
  // again.
  void Drain() ABSL_LOCKS_EXCLUDED(mutex_);

  // The recorded graphs of all models, for metrics.
  GraphUse graphs() const;

  // The memory of the first model's device, for metrics.
  DeviceMemory device_memory() const { return served_models_.front()->runner()->device_memory(); }

  EngineStats stats() const ABSL_LOCKS_EXCLUDED(mutex_);

  // False after a runner has lost its device. The engine then refuses everything with UNAVAILABLE
  // and repairs nothing: restart the process.
  bool healthy() const { return healthy_.load(std::memory_order_relaxed); }

 private:
  // A job that has ended, and the result for its caller.
  struct Ended {
    std::shared_ptr<AdmittedJob> job;
    absl::StatusOr<ScoreResult> result;
  };
  // Owned by the thread that waits in RunOnDevice.
  struct DeviceWork {
    const std::function<absl::Status()>& run;
    absl::Status status;
    bool done = false;  // guarded by mutex_
  };

  Engine(const Options& options, std::vector<std::unique_ptr<ModelRunner>> runners);

  const ServedModel* FindServedModel(absl::string_view name) const;
  RouteOptions EffectiveRoute(const ScoreJob& job, const ModelInfo& model) const;

  JobRequest RequestFor(const ScoreJob& job, const RouteOptions& route,
                        const ModelInfo& model) const;
  absl::Status Admit(const JobRequest& request, const std::shared_ptr<AdmittedJob>& job)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Called by the planning thread, and by the device thread when it is idle (engine_threads.cc).
  void PlanLoop() ABSL_LOCKS_EXCLUDED(mutex_);
  void PlanNext() ABSL_LOCKS_EXCLUDED(mutex_);

  // Called by the device thread (engine_threads.cc).
  void DeviceLoop() ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasStep() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return states_.NextStep(!device_work_.empty()) != ForwardStates::Step::kWait;
  }
  void LaunchNext() ABSL_LOCKS_EXCLUDED(mutex_);
  void RunWork() ABSL_LOCKS_EXCLUDED(mutex_);
  void Run(PlannedForward* planned) ABSL_LOCKS_EXCLUDED(mutex_);
  void RunSmaller(PlannedForward* planned) ABSL_LOCKS_EXCLUDED(mutex_);
  void HandleOutput(const PlannedForward& planned, const absl::StatusOr<PartOutput>& output,
                    double device_ms) ABSL_LOCKS_EXCLUDED(mutex_);
  void AnswerOrContinue(const AdmittedJob& job, absl::StatusOr<JobRun::Progress> progress)
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<Route> Advance(const AdmittedJob& job, absl::StatusOr<JobRun::Progress> progress,
                               std::vector<Ended>* ended) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UpdateHealth(const absl::Status& status);
  static void UpdateForwardLimit(const PlannedForward& planned, const absl::Status& status);
  // Call this without the lock, because whoever reads the log may be slow.
  void LogFallbackOnce(const Route& route) ABSL_LOCKS_EXCLUDED(mutex_);

  // The functions that end jobs. Any thread may call them.
  void OnAlarm() ABSL_LOCKS_EXCLUDED(mutex_);
  void SetAlarm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndAnswered(JobId id, absl::StatusOr<ScoreResult> result, std::vector<Ended>* ended)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndEarly(std::shared_ptr<AdmittedJob> job, absl::Status status, std::vector<Ended>* ended)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndExpired(ForwardStates::Jobs expired, std::vector<Ended>* ended)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Calls the callbacks of jobs that have ended. Call this without the lock.
  void Deliver(std::vector<Ended> ended) ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;
  std::vector<std::unique_ptr<ServedModel>> served_models_;  // their number never changes
  std::atomic<JobId> next_job_id_{1};
  std::atomic<bool> healthy_{true};

  mutable Mutex mutex_;
  ForwardStates states_ ABSL_GUARDED_BY(mutex_);
  // waiting work; owned by the callers of RunOnDevice
  std::deque<DeviceWork*> device_work_ ABSL_GUARDED_BY(mutex_);
  int64_t delivering_ ABSL_GUARDED_BY(mutex_) = 0;  // answers that are being delivered to callers
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  TimePoint alarm_at_ ABSL_GUARDED_BY(mutex_) = TimePoint::max();
  EngineStats stats_ ABSL_GUARDED_BY(mutex_);  // the counts that the scheduler does not keep

  absl::flat_hash_set<Reason> logged_reasons_;  // used by the device thread only
  // These members are last, because they use everything above. The threads use the alarm.
  Alarm alarm_;
  std::thread planning_thread_;
  std::thread device_thread_;
};

}  // namespace canopy

#endif  // CORE_ENGINE_ENGINE_H_
