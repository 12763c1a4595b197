// Converts events of the server to the values of the metrics that metric_table.h declares.
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

// One answered request, for counters, stage histograms and its log line.
struct ScoreObservation {
  std::shared_ptr<const ModelInfo> model;
  PlanCounts counts;
  Route route;
  int64_t computed_tokens = 0;
  int64_t questions = 0;
  int64_t paths = 0;
  int64_t unscored_paths = 0;
  bool is_pad_ended = false;  // the result of ScoresAPadEndedPath
  int32_t parts = 0;
  int32_t batch_requests = 0;
  Priority priority = Priority::kNormal;
  double decode_ms = 0;
  StageTimes stages;
  double encode_queue_ms = 0;
  double encode_ms = 0;
  double total_ms = 0;
};

// The figures of an engine at one instant.
struct EngineSnapshot {
  EngineStats stats;
  GraphUse graphs;
  DeviceMemory memory;
  std::vector<std::shared_ptr<const ModelInfo>> models;
};

// Thread-safe.
class Metrics {
 public:
  // If `enabled` is false, nobody reads the metrics and nothing is counted.
  explicit Metrics(bool enabled) : enabled_(enabled) {}
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void CallStarted(Method method);
  // `reason` is the name of the error's reason; '' = none.
  void CallFinished(Method method, grpc::StatusCode code, absl::string_view reason);
  // Counts an answered request of a ScoreStream.
  void StreamRequestFinished(grpc::StatusCode code, absl::string_view reason);
  // Counts a call whose client left, or whose deadline passed, before it was answered.
  void CallAbandoned(Method method);
  // Counts a connection that was refused because descriptors are scarce.
  void ConnectionRefused();
  // Counts a call that was cut because its client did not read.
  void StalledCallCut();
  // Counts a request with a TokenIds.raw that looks like the bytes of an int64 array.
  void SuspiciousRawRequest();
  void Observe(const ScoreObservation& observation);
  // Records a forward. `max_batch_tokens` is the most tokens that it may compute.
  void ObserveForward(const ForwardRecord& forward, int64_t max_batch_tokens);

  // Sets the values that stay the same while the process runs.
  void SetBuild(absl::string_view version) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetLimit(absl::string_view name, int64_t value) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetReady(bool ready);
  // Sets the function that each scrape calls. It must stay callable as long as this object lives.
  void SetEngineSource(std::function<EngineSnapshot()> source) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetMemorySource(std::function<MemoryStats()> source) ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns all metrics in Prometheus' text format.
  std::string Render() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void CountError(grpc::StatusCode code, absl::string_view reason);
  void ObserveStage(Metric metric, double milliseconds, size_t label = 0);
  // Raises a counter to a value that was counted elsewhere.
  void Raise(Metric metric, size_t label, double value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ShowEngine(const EngineSnapshot& engine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ShowModels(const EngineSnapshot& engine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ShowMemory(const MemoryStats& stats) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ShowProcess() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const bool enabled_;
  MetricRegistry registry_;

  Mutex mutex_;  // guards the rendering of one page at a time
  std::function<EngineSnapshot()> engine_source_ ABSL_GUARDED_BY(mutex_);
  std::function<MemoryStats()> memory_source_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<const ModelInfo>> shown_models_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace canopy::server

#endif  // SERVER_TELEMETRY_METRICS_H_
