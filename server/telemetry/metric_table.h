// Declares every metric of the server once. The registry (metric_registry.h), the page at /metrics
// and docs/METRICS.md are made from this table.
//
// Names are stable: canopy_*, and process_* where Prometheus' client libraries use that name. Units
// are base units. Label values come from closed sets or from the operator's configuration; no value
// that a client sends becomes a label.
#ifndef SERVER_TELEMETRY_METRIC_TABLE_H_
#define SERVER_TELEMETRY_METRIC_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace canopy::server {

// The metrics, in the order of the table.
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
  std::vector<std::string> values;  // all values; empty = `origin` describes them
  std::string origin;               // the part of the configuration that gives the values
};

struct MetricDeclaration {
  Metric metric = Metric::kRequests;
  std::string name;
  MetricType type = MetricType::kCounter;
  std::string unit;
  std::string help;
  std::vector<MetricLabel> labels;
  // the inclusive upper bounds of a histogram's buckets, in increasing order
  std::vector<double> buckets;

  // Returns whether every series is known when the server starts.
  bool closed() const;
};

// The most series of a metric whose label values come from the configuration.
inline constexpr size_t kMaxOpenSeries = 64;

const std::vector<MetricDeclaration>& MetricTable();
const MetricDeclaration& DeclarationOf(Metric metric);

// Returns the text of docs/METRICS.md.
std::string MetricsPage();

}  // namespace canopy::server

#endif  // SERVER_TELEMETRY_METRIC_TABLE_H_
