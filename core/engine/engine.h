// Admission, the queue and the device thread: jobs in, results out. Usable without gRPC.
//
//   1. Submit admits a job or refuses it at once: draining, unknown model, queue full.
//   2. The device thread takes jobs in order; one whose deadline passed or whose caller is gone is
//      answered without touching the device.
//   3. The job is planned and routed whole, and run in the parts that the token budget asks for.
//   4. Questions with a result that is not finite run again path by path: masked attention spreads
//      a NaN (0 x NaN) to paths that are finite alone.
//   5. A head over whole questions scores them from the vectors that all parts left.
//   6. The callback gets the result, exactly once.
#ifndef CORE_ENGINE_ENGINE_H_
#define CORE_ENGINE_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/base/stopwatch.h"
#include "core/engine/model_runner.h"
#include "core/engine/types.h"
#include "core/tree/tree_plan.h"

namespace canopy {

// Thread-safe. The destructor drains.
class Engine {
 public:
  struct Options {
    int64_t max_batch_tokens = 16'384;              // computed tokens of one forward; > 0
    int32_t max_queued_requests = 1'024;            // waiting ones; >= 1
    int64_t max_queued_tokens = int64_t{16} << 20;  // input tokens of all waiting requests; >= 1
    Backend default_backend = Backend::kAuto;       // stands in for AUTO of requests without a wish
    Packing default_packing = Packing::kAuto;       // likewise
    int64_t max_mask_bytes =
        kDefaultMaxMaskBytes;  // when a request names none, and the most it may
  };
  using Callback = std::function<void(absl::StatusOr<ScoreResult>)>;

  // INVALID_ARGUMENT for an option out of range, no model, or two models of one name;
  // FAILED_PRECONDITION for a default backend that a model does not have.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(
      const Options& options, std::vector<std::unique_ptr<ModelRunner>> runners);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // OK = `done` will be called exactly once, on the device thread: it must not block. Otherwise it
  // is never called: UNAVAILABLE when draining, NOT_FOUND for the model, RESOURCE_EXHAUSTED with
  // RetryAfter when the queue is full.
  // Results carry DEADLINE_EXCEEDED or CANCELLED when that was so before a forward, what
  // RequestPlan::Create returns, RESOURCE_EXHAUSTED with ErrorReason PATH_TOO_LARGE_FOR_DEVICE when
  // one path does not fit the device, QUESTION_TOO_LARGE_FOR_DEVICE when a question does not, or
  // the runner's error.
  absl::Status Submit(ScoreJob job, Callback done);

  // The plan that `job` would run by, with its trie, on the caller's thread. NOT_FOUND, or what
  // RequestPlan::Create returns.
  absl::StatusOr<RequestPlan> Plan(const ScoreJob& job) const;

  // Loaded models; the first is the default. FindModel: empty = the first; null = unknown.
  const std::vector<std::shared_ptr<const ModelInfo>>& models() const { return models_; }
  std::shared_ptr<const ModelInfo> FindModel(absl::string_view name) const;

  // Refuses new jobs with UNAVAILABLE, finishes accepted ones, then returns. May be repeated.
  void Drain();

  // Of all models, for metrics.
  GraphUse graphs() const;

  // Jobs that wait, for metrics.
  int64_t queued_requests() const;

  // False once a runner lost its device: nothing is repaired in process, everything is refused with
  // UNAVAILABLE, and the process should be restarted.
  bool healthy() const { return healthy_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    ScoreJob job;
    Callback done;
    ModelRunner* runner = nullptr;
    int64_t tokens = 0;
    Stopwatch waiting;
  };

  Engine(const Options& options, std::vector<std::unique_ptr<ModelRunner>> runners);

  ModelRunner* FindRunner(absl::string_view name) const;
  RouteOptions EffectiveRoute(const ScoreJob& job, const ModelInfo& model) const;
  void DeviceLoop();
  void Answer(const Entry& entry);
  absl::StatusOr<ScoreResult> Run(const Entry& entry);
  void LogFallbackOnce(const Route& route);

  const Options options_;
  const std::vector<std::unique_ptr<ModelRunner>> runners_;
  std::vector<std::shared_ptr<const ModelInfo>> models_;

  mutable absl::Mutex mutex_;
  std::deque<Entry> queue_ ABSL_GUARDED_BY(mutex_);
  int64_t queued_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;  // a job is on the device thread
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::atomic<bool> healthy_{true};
  absl::flat_hash_set<Reason> logged_reasons_;  // device thread only
  std::thread device_thread_;                   // last: it uses everything above
};

}  // namespace canopy

#endif  // CORE_ENGINE_ENGINE_H_
