// Everything that Prometheus sees of this server. Names are canopy_*, times are seconds, label
// values come from closed sets: nothing that a client sends becomes one.
#ifndef SERVER_METRICS_H_
#define SERVER_METRICS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/engine/engine_stats.h"
#include "core/engine/types.h"
#include "grpcpp/support/status_code_enum.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/labels.h"
#include "prometheus/registry.h"

namespace canopy::server {

enum class Method { kScore, kScoreStream, kExplain, kGetModel, kListModels };

// One answered Score call, for counters and stage histograms.
struct ScoreObservation {
  PlanCounts counts;
  Route route;
  int64_t computed_tokens = 0;
  int64_t paths = 0;
  int64_t unscored_paths = 0;
  Priority priority = Priority::kNormal;
  double decode_ms = 0;
  StageTimes stages;
  double encode_ms = 0;
  double total_ms = 0;
};

// Thread-safe.
class Metrics {
 public:
  Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void CallStarted(Method method);
  void CallFinished(Method method, grpc::StatusCode code);
  // One request of a ScoreStream was answered.
  void StreamRequestFinished(grpc::StatusCode code);
  // The client of an unanswered call went away, or its deadline passed.
  void CallAbandoned(Method method);
  // A connection was turned away because descriptors are scarce.
  void ConnectionRefused() { refused_connections_.Increment(); }
  void Observe(const ScoreObservation& observation);
  // A forward has run. `max_batch_tokens` is what it may compute.
  void ObserveForward(const ForwardRecord& forward, int64_t max_batch_tokens);

  // Shown as they are from now on.
  void SetBuild(absl::string_view version);
  void SetModel(const ModelInfo& model);
  void SetLimit(absl::string_view name, int64_t value);
  // Asked at each scrape; must stay callable as long as this object lives.
  void SetGraphSource(std::function<GraphUse()> graphs) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetEngineSource(std::function<EngineStats()> stats) ABSL_LOCKS_EXCLUDED(mutex_);

  // Everything in Prometheus' text format.
  std::string Render() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  prometheus::Counter& AddCounter(const char* name, const char* help);
  prometheus::Gauge& AddGauge(const char* name, const char* help);
  prometheus::Histogram& AddStage(const char* name, const char* help,
                                  const prometheus::Labels& labels = {});
  void ShowEngine(const EngineStats& stats) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Family<prometheus::Counter>& stream_requests_;
  prometheus::Family<prometheus::Gauge>& in_flight_;
  prometheus::Family<prometheus::Counter>& abandoned_;
  prometheus::Family<prometheus::Counter>& routes_;
  prometheus::Family<prometheus::Gauge>& limits_;
  prometheus::Family<prometheus::Gauge>& models_;
  prometheus::Family<prometheus::Gauge>& build_;
  prometheus::Gauge& cuda_graphs_;
  prometheus::Gauge& cuda_graph_bytes_;
  prometheus::Gauge& queued_normal_;
  prometheus::Gauge& queued_low_;
  prometheus::Gauge& queued_tokens_;
  prometheus::Counter& accepted_;
  prometheus::Family<prometheus::Counter>& ended_;
  prometheus::Family<prometheus::Counter>& refused_;
  prometheus::Counter& device_busy_;
  prometheus::Counter& device_wasted_;
  prometheus::Histogram& forward_requests_;
  prometheus::Histogram& forward_fill_;
  prometheus::Counter& refused_connections_;
  prometheus::Counter& paths_;
  prometheus::Counter& unscored_paths_;
  prometheus::Counter& path_tokens_;
  prometheus::Counter& input_tokens_;
  prometheus::Counter& unique_tokens_;
  prometheus::Counter& computed_tokens_;
  prometheus::Histogram& decode_;
  prometheus::Histogram& queue_normal_;
  prometheus::Histogram& queue_low_;
  prometheus::Histogram& plan_;
  prometheus::Histogram& device_;
  prometheus::Histogram& encode_;
  prometheus::Histogram& total_;

  absl::Mutex mutex_;
  std::function<GraphUse()> graph_source_ ABSL_GUARDED_BY(mutex_);
  std::function<EngineStats()> engine_source_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace canopy::server

#endif  // SERVER_METRICS_H_
