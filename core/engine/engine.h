// Jobs in, results out: admission, batches on demand, the threads around the device. Usable without
// gRPC.
//
//   1. Submit admits a job or refuses it at once: draining, unknown model, queue full.
//   2. The scheduler (core/engine/scheduler.h) picks what runs next: fair between clients, two
//      priorities, jobs together where the contract lets them share a forward.
//   3. The planning thread builds that forward while the device thread runs the previous one. A
//      large job runs in the parts that the token budget asks for, and others run in between.
//   4. Questions with a hidden state that is not finite run again path by path: masked attention
//      spreads a NaN (0 x NaN) to paths that are finite alone.
//   5. A head over whole questions scores them from the vectors that all parts left.
//   6. Weights may be replaced at any time: a job is answered wholly by those that its first
//      forward was planned with.
//   7. The callback gets the result, or at once DEADLINE_EXCEEDED or CANCELLED, exactly once.
//
// ForwardStates (core/engine/forward_states.h) decides; the threads do what it says:
//
//   caller          Submit and Cancel; gets a refusal or a cancellation at once
//   planning thread builds the next forward while the device is busy
//   device thread   runs forwards, absorbs their results, answers or continues jobs; between
//                   forwards it does the work of RunOnDevice. It builds the next forward itself if
//                   it has nothing to run, or if forwards are shorter than a hand-over.
//   alarm thread    ends jobs at their deadline, whatever the device does
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

// Thread-safe. The destructor drains.
class Engine {
 public:
  // Called exactly once a job, from any of the threads above: it must not block.
  using Callback = std::function<void(absl::StatusOr<ScoreResult>)>;
  using ForwardObserver = std::function<void(const ForwardRecord&)>;

  struct Options {
    Scheduler::Options scheduler;
    bool share_across_tenants = false;         // prefixes of different tenants may meet
    Backend default_backend = Backend::kAuto;  // of requests that leave backend and policy open
    Packing default_packing = Packing::kAuto;  // of requests that leave packing and policy open
    int64_t max_mask_bytes = kDefaultMaxMaskBytes;  // of requests that name none; >= 0
    ForwardObserver on_forward;                     // called on the device thread; may be null
  };

  // INVALID_ARGUMENT for an option out of range, no model, or two models of one name;
  // FAILED_PRECONDITION for a default backend that a model does not have.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(
      const Options& options, std::vector<std::unique_ptr<ModelRunner>> runners);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Names a job before it is submitted, so that it can be cancelled from then on.
  JobId NewJobId() { return next_job_id_.fetch_add(1, std::memory_order_relaxed); }

  // OK = `done` will be called exactly once, on any thread: it must not block. Otherwise it is
  // never called: UNAVAILABLE when draining, NOT_FOUND for the model, DEADLINE_EXCEEDED when the
  // deadline has passed, RESOURCE_EXHAUSTED with RetryAfter when the queue is full or too long for
  // the deadline. Results carry DEADLINE_EXCEEDED or CANCELLED, at once and whatever the device
  // does, RESOURCE_EXHAUSTED with RetryAfter when a full queue owed the place to another, what
  // RequestPlan::Create returns, RESOURCE_EXHAUSTED with the reason PATH_TOO_LARGE_FOR_DEVICE when
  // one path does not fit the device, QUESTION_TOO_LARGE_FOR_DEVICE when a question does not, or
  // the runner's error.
  absl::Status Submit(ScoreJob job, Callback done) ABSL_LOCKS_EXCLUDED(mutex_);

  // Nobody waits for the job any more: it is answered with CANCELLED at once, and no forward is
  // launched for it. Nothing happens when it is answered or not submitted.
  void Cancel(JobId id) ABSL_LOCKS_EXCLUDED(mutex_);

  // The plan that `job` would run by, with its trie, on the caller's thread. NOT_FOUND, or what
  // RequestPlan::Create returns.
  absl::StatusOr<RequestPlan> Plan(const ScoreJob& job) const;

  // Loaded models as they serve now; the first is the default. FindModel: empty = the first; null =
  // unknown.
  std::vector<std::shared_ptr<const ModelInfo>> models() const;
  std::shared_ptr<const ModelInfo> FindModel(absl::string_view name) const;

  // Puts `next` in the place of the model of its name: jobs whose first forward is planned from now
  // on are answered by it, others to their end by the weights that began them, which are freed with
  // the last of them. Nobody waits. NOT_FOUND, or errors as of ServedModel::Replace.
  absl::Status ReplaceModel(std::shared_ptr<ModelRunner> next,
                            absl::string_view expected_fingerprint);

  // Runs `work` on the device thread between two forwards, and returns its status: how weights are
  // made ready while others serve. UNAVAILABLE without running it when draining. Must have returned
  // before the destructor is called.
  absl::Status RunOnDevice(const std::function<absl::Status()>& work) ABSL_LOCKS_EXCLUDED(mutex_);

  // Refuses new jobs with UNAVAILABLE, finishes accepted ones, then returns. May be repeated.
  void Drain() ABSL_LOCKS_EXCLUDED(mutex_);

  // The recorded graphs of all models, for metrics.
  GraphUse graphs() const;

  // The memory of the first model's device, for metrics.
  DeviceMemory device_memory() const { return served_models_.front()->runner()->device_memory(); }

  EngineStats stats() const ABSL_LOCKS_EXCLUDED(mutex_);

  // False once a runner lost its device: nothing is repaired in process, everything is refused with
  // UNAVAILABLE, and the process should be restarted.
  bool healthy() const { return healthy_.load(std::memory_order_relaxed); }

 private:
  // A job that has ended, and what its caller gets.
  struct Ended {
    std::shared_ptr<AdmittedJob> job;
    absl::StatusOr<ScoreResult> result;
  };
  // Belongs to the thread that waits in RunOnDevice.
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

  // The planning thread, and the device thread when it is idle (engine_threads.cc).
  void PlanLoop() ABSL_LOCKS_EXCLUDED(mutex_);
  void PlanNext() ABSL_LOCKS_EXCLUDED(mutex_);

  // The device thread (engine_threads.cc).
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
  std::vector<std::unique_ptr<ServedModel>> served_models_;  // as many as at the start
  std::atomic<JobId> next_job_id_{1};
  std::atomic<bool> healthy_{true};

  mutable Mutex mutex_;
  ForwardStates states_ ABSL_GUARDED_BY(mutex_);
  std::deque<DeviceWork*> device_work_ ABSL_GUARDED_BY(mutex_);  // waits; owned by its callers
  int64_t delivering_ ABSL_GUARDED_BY(mutex_) = 0;  // answers on their way to their callers
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  TimePoint alarm_at_ ABSL_GUARDED_BY(mutex_) = TimePoint::max();
  EngineStats stats_ ABSL_GUARDED_BY(mutex_);  // what the scheduler does not count

  absl::flat_hash_set<Reason> logged_reasons_;  // device thread only
  // These are last, because they use everything above. The threads use the alarm.
  Alarm alarm_;
  std::thread planning_thread_;
  std::thread device_thread_;
};

}  // namespace canopy

#endif  // CORE_ENGINE_ENGINE_H_
