// Jobs in, results out: admission, batches on demand, the device thread. Usable without gRPC.
//
//   1. Submit admits a job or refuses it at once: draining, unknown model, queue full.
//   2. The scheduler (core/engine/scheduler.h) picks what runs next: fair between clients, two
//      priorities, jobs together where the contract lets them share a forward.
//   3. A planning thread builds that forward while the device runs the one before
//      (core/engine/pipeline.h). A large job runs in the parts that the token budget asks for, and
//      others run in between.
//   4. Questions with a hidden state that is not finite run again path by path: masked attention
//      spreads a NaN (0 x NaN) to paths that are finite alone.
//   5. A head over whole questions scores them from the vectors that all parts left.
//   6. Weights may be replaced at any time: a job is answered wholly by those that its first
//   forward
//      was planned with.
//   7. The callback gets the result, or at once DEADLINE_EXCEEDED or CANCELLED, exactly once.
#ifndef CORE_ENGINE_ENGINE_H_
#define CORE_ENGINE_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/engine/engine_stats.h"
#include "core/engine/model_runner.h"
#include "core/engine/model_slot.h"
#include "core/engine/pipeline.h"
#include "core/engine/scheduler.h"
#include "core/engine/types.h"
#include "core/tree/tree_plan.h"

namespace canopy {

// Thread-safe. The destructor drains.
class Engine {
 public:
  using Callback = Pipeline::Callback;
  using ForwardObserver = Pipeline::ForwardObserver;

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
  ~Engine() = default;
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
  absl::Status Submit(ScoreJob job, Callback done);

  // Nobody waits for the job any more: it is answered with CANCELLED at once, and no forward is
  // launched for it. Nothing happens when it is answered or not submitted.
  void Cancel(JobId id) { pipeline_->Cancel(id); }

  // The plan that `job` would run by, with its trie, on the caller's thread. NOT_FOUND, or what
  // RequestPlan::Create returns.
  absl::StatusOr<RequestPlan> Plan(const ScoreJob& job) const;

  // Loaded models as they serve now; the first is the default. FindModel: empty = the first; null =
  // unknown.
  std::vector<std::shared_ptr<const ModelInfo>> models() const;
  std::shared_ptr<const ModelInfo> FindModel(absl::string_view name) const;

  // Puts `next` in the place of the model of its name: jobs whose first forward is planned from now
  // on are answered by it, others to their end by the weights that began them, which are freed with
  // the last of them. Nobody waits. NOT_FOUND, or errors as of ModelSlot::Replace.
  absl::Status ReplaceModel(std::shared_ptr<ModelRunner> next,
                            absl::string_view expected_fingerprint);

  // As Pipeline::RunOnDevice: how weights are made ready while others serve.
  absl::Status RunOnDevice(const std::function<absl::Status()>& work) {
    return pipeline_->RunOnDevice(work);
  }

  // Refuses new jobs with UNAVAILABLE, finishes accepted ones, then returns. May be repeated.
  void Drain() { pipeline_->Drain(); }

  // Of all models, for metrics.
  GraphUse graphs() const;

  // Of the first model's device, for metrics.
  DeviceMemory device_memory() const { return slots_.front()->runner()->device_memory(); }

  EngineStats stats() const { return pipeline_->stats(); }

  // False once a runner lost its device: nothing is repaired in process, everything is refused with
  // UNAVAILABLE, and the process should be restarted.
  bool healthy() const { return pipeline_->healthy(); }

 private:
  Engine(const Options& options, std::vector<std::unique_ptr<ModelRunner>> runners);

  const ModelSlot* FindSlot(absl::string_view name) const;
  RouteOptions EffectiveRoute(const ScoreJob& job, const ModelInfo& model) const;

  const Options options_;
  std::vector<std::unique_ptr<ModelSlot>> slots_;  // as many as at the start
  std::atomic<JobId> next_job_id_{1};
  std::unique_ptr<Pipeline> pipeline_;  // last: it uses the slots
};

}  // namespace canopy

#endif  // CORE_ENGINE_ENGINE_H_
