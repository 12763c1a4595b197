// Everything that Prometheus sees of this server. Names are canopy_*, times are seconds, label
// values come from closed sets: nothing that a client sends becomes one.
#ifndef SERVER_METRICS_H_
#define SERVER_METRICS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/engine/types.h"
#include "grpcpp/support/status_code_enum.h"
#include "prometheus/counter.h"
#include "prometheus/exposer.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
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
  void Observe(const ScoreObservation& observation);

  // Shown as they are from now on.
  void SetBuild(absl::string_view version);
  void SetModel(const ModelInfo& model);
  void SetLimit(absl::string_view name, int64_t value);
  // Asked at each scrape; must stay callable as long as this object lives.
  void SetQueueDepthSource(std::function<int64_t()> queued_requests);

  // Serves /metrics over plain HTTP on HOST:PORT until the exposer is destroyed. UNAVAILABLE when
  // the address cannot be bound.
  absl::StatusOr<std::unique_ptr<prometheus::Exposer>> Expose(const std::string& address);

 private:
  class ScrapeSource;

  prometheus::Counter& AddCounter(const char* name, const char* help);
  prometheus::Histogram& AddStage(const char* name, const char* help);

  const std::shared_ptr<prometheus::Registry> registry_;
  const std::shared_ptr<ScrapeSource> scrape_source_;
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Family<prometheus::Gauge>& in_flight_;
  prometheus::Family<prometheus::Counter>& routes_;
  prometheus::Family<prometheus::Gauge>& limits_;
  prometheus::Family<prometheus::Gauge>& models_;
  prometheus::Family<prometheus::Gauge>& build_;
  prometheus::Counter& paths_;
  prometheus::Counter& unscored_paths_;
  prometheus::Counter& path_tokens_;
  prometheus::Counter& input_tokens_;
  prometheus::Counter& unique_tokens_;
  prometheus::Counter& computed_tokens_;
  prometheus::Histogram& decode_;
  prometheus::Histogram& queue_;
  prometheus::Histogram& plan_;
  prometheus::Histogram& device_;
  prometheus::Histogram& encode_;
  prometheus::Histogram& total_;
};

}  // namespace canopy::server

#endif  // SERVER_METRICS_H_
