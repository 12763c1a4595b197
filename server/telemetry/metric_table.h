// Every metric of this server, declared once. The registry (metric_registry.h), the page at
// /metrics and docs/METRICS.md are made from this table.
//
// Names are stable: canopy_*, and process_* for what Prometheus' client libraries call so. Units
// are base units. Label values come from closed sets, or from what the operator configured:
// nothing that a client sends becomes one.
#ifndef SERVER_TELEMETRY_METRIC_TABLE_H_
#define SERVER_TELEMETRY_METRIC_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace canopy::server {

// In the order of the table.
enum class Metric {
  kRequests,
  kStreamRequests,
  kRequestsInFlight,
  kAbandonedRequests,
  kErrors,
  kAcceptedRequests,
  kEndedRequests,
  kRefusedRequests,
  kQueuedRequests,
  kQueuedTokens,
  kForwardRequests,
  kForwardFill,
  kDeviceBusySeconds,
  kWastedDeviceSeconds,
  kOutOfMemoryForwards,
  kPaths,
  kUnscoredPaths,
  kPadEndedRequests,
  kPathTokens,
  kInputTokens,
  kUniqueTokens,
  kComputedTokens,
  kRoutes,
  kDecodeSeconds,
  kQueueSeconds,
  kPlanSeconds,
  kDeviceSeconds,
  kEncodeQueueSeconds,
  kEncodeSeconds,
  kTotalSeconds,
  kDeviceMemory,
  kCudaGraphs,
  kCudaGraphBytes,
  kReady,
  kModelInfo,
  kModelVersion,
  kLimit,
  kBuildInfo,
  kRefusedConnections,
  kStalledCalls,
  kSuspiciousRawRequests,
  kMemoryUsed,
  kMemoryLimit,
  kRequestMemory,
  kLogLinesLeftOut,
  kProcessOpenFds,
  kProcessMaxFds,
  kProcessThreads,
  kProcessResidentBytes,
  kProcessCpuSeconds,
  kProcessStartTime,
};

enum class MetricType { kCounter, kGauge, kHistogram };

struct MetricLabel {
  std::string name;
  std::vector<std::string> values;  // all that there are; empty = `origin` gives them
  std::string origin;               // where the operator's values come from
};

struct MetricDeclaration {
  Metric metric = Metric::kRequests;
  std::string name;
  MetricType type = MetricType::kCounter;
  std::string unit;
  std::string help;
  std::vector<MetricLabel> labels;
  std::vector<double> buckets;  // of histograms: inclusive upper bounds, rising

  // Whether every series is known when the server starts.
  bool closed() const;
};

// Most series that a metric shows whose label values the operator gives.
inline constexpr size_t kMaxOpenSeries = 64;

const std::vector<MetricDeclaration>& MetricTable();
const MetricDeclaration& DeclarationOf(Metric metric);

// docs/METRICS.md.
std::string MetricsPage();

}  // namespace canopy::server

#endif  // SERVER_TELEMETRY_METRIC_TABLE_H_
