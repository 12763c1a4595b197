// What this server counts, for Prometheus. metric_table.h declares the metrics; this is where
// events of the server become their values.
#ifndef SERVER_TELEMETRY_METRICS_H_
#define SERVER_TELEMETRY_METRICS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "base/memory_budget.h"
#include "base/mutex.h"
#include "core/engine/engine_stats.h"
#include "core/engine/types.h"
#include "grpcpp/support/status_code_enum.h"
#include "server/telemetry/metric_labels.h"
#include "server/telemetry/metric_registry.h"

namespace canopy::server {

// One answered Score call, for counters, stage histograms and the request's log line.
struct ScoreObservation {
  std::shared_ptr<const ModelInfo> model;
  PlanCounts counts;
  Route route;
  int64_t computed_tokens = 0;
  int64_t questions = 0;
  int64_t paths = 0;
  int64_t unscored_paths = 0;
  bool is_pad_ended = false;  // as of ScoresAPadEndedPath
  int32_t parts = 0;
  int32_t batch_requests = 0;
  Priority priority = Priority::kNormal;
  double decode_ms = 0;
  StageTimes stages;
  double encode_queue_ms = 0;
  double encode_ms = 0;
  double total_ms = 0;
};

// What an engine shows when it is asked.
struct EngineSnapshot {
  EngineStats stats;
  GraphUse graphs;
  DeviceMemory memory;
  std::vector<std::shared_ptr<const ModelInfo>> models;
};

// Thread-safe.
class Metrics {
 public:
  // `enabled` = somebody may read them; otherwise nothing is counted.
  explicit Metrics(bool enabled) : enabled_(enabled) {}
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void CallStarted(Method method);
  // `reason` as ErrorReason gives it; '' = none.
  void CallFinished(Method method, grpc::StatusCode code, absl::string_view reason);
  // One request of a ScoreStream was answered.
  void StreamRequestFinished(grpc::StatusCode code, absl::string_view reason);
  // The client of an unanswered call went away, or its deadline passed.
  void CallAbandoned(Method method);
  // A connection was turned away because descriptors are scarce.
  void ConnectionRefused();
  // A call was cut because its client did not take what was written.
  void StalledCallCut();
  // A request's TokenIds.raw looks like the bytes of an int64 array.
  void SuspiciousRawRequest();
  void Observe(const ScoreObservation& observation);
  // A forward has run. `max_batch_tokens` is what it may compute.
  void ObserveForward(const ForwardRecord& forward, int64_t max_batch_tokens);

  // Shown as they are from now on.
  void SetBuild(absl::string_view version) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetLimit(absl::string_view name, int64_t value) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetReady(bool ready);
  // Asked at each scrape; must stay callable as long as this object lives.
  void SetEngineSource(std::function<EngineSnapshot()> source) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetMemorySource(std::function<MemoryStats()> source) ABSL_LOCKS_EXCLUDED(mutex_);

  // Everything in Prometheus' text format.
  std::string Render() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void CountError(grpc::StatusCode code, absl::string_view reason);
  void ObserveStage(Metric metric, double milliseconds, size_t label = 0);
  // Brings a counter of ours up to what others counted.
  void Raise(Metric metric, size_t label, double value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ShowEngine(const EngineSnapshot& engine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ShowModels(const EngineSnapshot& engine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ShowMemory(const MemoryStats& stats) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ShowProcess() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const bool enabled_;
  MetricRegistry registry_;

  Mutex mutex_;  // one page at a time
  std::function<EngineSnapshot()> engine_source_ ABSL_GUARDED_BY(mutex_);
  std::function<MemoryStats()> memory_source_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<const ModelInfo>> shown_models_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace canopy::server

#endif  // SERVER_TELEMETRY_METRICS_H_
