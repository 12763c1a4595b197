#include "server/telemetry/metric_table.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "server/telemetry/metric_labels.h"

namespace canopy::server {
namespace {

constexpr MetricType kCounter = MetricType::kCounter;
constexpr MetricType kGauge = MetricType::kGauge;
constexpr MetricType kHistogram = MetricType::kHistogram;

// Returns bounds from a tenth of a millisecond to a minute, six per decade.
std::vector<double> SecondsBuckets() {
  return {0.0001, 0.00015, 0.00022, 0.00032, 0.00046, 0.00068, 0.001, 0.0015, 0.0022,
          0.0032, 0.0046,  0.0068,  0.01,    0.015,   0.022,   0.032, 0.046,  0.068,
          0.1,    0.15,    0.22,    0.32,    0.46,    0.68,    1,     1.5,    2.2,
          3.2,    4.6,     6.8,     10,      15,      22,      32,    46,     60};
}

MetricDeclaration Plain(Metric metric, absl::string_view name, MetricType type,
                        absl::string_view unit, absl::string_view help,
                        std::vector<MetricLabel> labels = {}) {
  return {metric, std::string(name), type, std::string(unit), std::string(help), std::move(labels),
          {}};
}

MetricDeclaration Histogram(Metric metric, absl::string_view name, absl::string_view unit,
                            absl::string_view help, std::vector<double> buckets,
                            std::vector<MetricLabel> labels = {}) {
  MetricDeclaration declaration = Plain(metric, name, kHistogram, unit, help, std::move(labels));
  declaration.buckets = std::move(buckets);
  return declaration;
}

MetricDeclaration Stage(Metric metric, absl::string_view name, absl::string_view help,
                        std::vector<MetricLabel> labels = {}) {
  return Histogram(metric, name, "seconds", help, SecondsBuckets(), std::move(labels));
}

std::vector<MetricDeclaration> RequestMetrics() {
  const MetricLabel method = {"method", MethodNames(), ""};
  const MetricLabel code = {"code", CodeNames(), ""};
  return {
      Plain(Metric::kRequests, "canopy_requests_total", kCounter, "calls",
            "Answered calls by method and gRPC code.", {method, code}),
      Plain(Metric::kStreamRequests, "canopy_stream_requests_total", kCounter, "requests",
            "Answered requests of ScoreStream calls by gRPC code.", {code}),
      Plain(Metric::kRequestsInFlight, "canopy_requests_in_flight", kGauge, "calls",
            "Calls that are not answered yet.", {method}),
      Plain(Metric::kAbandonedRequests, "canopy_abandoned_requests_total", kCounter, "calls",
            "Calls whose client left, or whose deadline passed, before they were answered.",
            {method}),
      Plain(Metric::kErrors, "canopy_errors_total", kCounter, "answers",
            "Answers other than OK, of calls and of requests of a stream, by the reason in their "
            "google.rpc.ErrorInfo; none = there is no reason.",
            {{"reason", ErrorReasonNames(), ""}}),
  };
}

std::vector<MetricDeclaration> QueueMetrics() {
  const MetricLabel priority = {"priority", {"normal", "low"}, ""};
  return {
      Plain(Metric::kAcceptedRequests, "canopy_accepted_requests_total", kCounter, "requests",
            "Requests that were admitted to the queue."),
      Plain(Metric::kEndedRequests, "canopy_ended_requests_total", kCounter, "requests",
            "Accepted requests by how they ended.",
            {{"outcome", {"answered", "displaced", "expired", "cancelled"}, ""}}),
      Plain(
          Metric::kRefusedRequests, "canopy_refused_requests_total", kCounter, "requests",
          "Requests that were not admitted to the queue, by reason.",
          {{"reason", {"queued_requests", "queued_tokens", "deadline", "draining", "memory"}, ""}}),
      Plain(Metric::kQueuedRequests, "canopy_queued_requests", kGauge, "requests",
            "Requests that wait for the device, by priority.", {priority}),
      Plain(Metric::kQueuedTokens, "canopy_queued_tokens", kGauge, "tokens",
            "Computed tokens, as estimated, of forwards that wait."),
      Histogram(Metric::kForwardRequests, "canopy_forward_requests", "requests",
                "Requests that shared a forward.",
                {1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256, 512}),
      Histogram(Metric::kForwardFill, "canopy_forward_fill_ratio", "ratio",
                "Computed tokens of a forward as a fraction of --max_batch_tokens.",
                {0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}),
      Plain(Metric::kDeviceBusySeconds, "canopy_device_busy_seconds_total", kCounter, "seconds",
            "Time in which a forward ran."),
      Plain(Metric::kWastedDeviceSeconds, "canopy_wasted_device_seconds_total", kCounter, "seconds",
            "Device time of requests that expired or were cancelled."),
      Plain(
          Metric::kOutOfMemoryForwards, "canopy_out_of_memory_forwards_total", kCounter, "forwards",
          "Forwards that ran out of device memory; their requests ran again in smaller forwards."),
  };
}

std::vector<MetricDeclaration> WorkMetrics() {
  const MetricLabel priority = {"priority", {"normal", "low"}, ""};
  return {
      Plain(Metric::kPaths, "canopy_paths_total", kCounter, "paths",
            "Candidate paths of scored requests."),
      Plain(Metric::kUnscoredPaths, "canopy_unscored_paths_total", kCounter, "paths",
            "Candidate paths that lack an output because it was not finite."),
      Plain(Metric::kPadEndedRequests, "canopy_pad_ended_requests_total", kCounter, "requests",
            "Scored requests with a path that ends in the classifier's padding token, which "
            "transformers would score at another token."),
      Plain(Metric::kPathTokens, "canopy_path_tokens_total", kCounter, "tokens",
            "Paths times longest path of scored requests."),
      Plain(Metric::kInputTokens, "canopy_input_tokens_total", kCounter, "tokens",
            "Sum of path lengths of scored requests."),
      Plain(Metric::kUniqueTokens, "canopy_unique_tokens_total", kCounter, "tokens",
            "Trie nodes of scored requests that a trie was built for."),
      Plain(Metric::kComputedTokens, "canopy_computed_tokens_total", kCounter, "tokens",
            "Token slots that the device ran for scored requests."),
      Plain(Metric::kRoutes, "canopy_routes_total", kCounter, "requests",
            "Scored requests by the backend that ran and the reason for choosing it.",
            {{"backend", BackendNames(), ""}, {"reason", RouteReasonNames(), ""}}),
      Stage(Metric::kDecodeSeconds, "canopy_decode_seconds", "Decoding and checking a request."),
      Stage(Metric::kQueueSeconds, "canopy_queue_seconds", "Waiting for the device, by priority.",
            {priority}),
      Stage(Metric::kPlanSeconds, "canopy_plan_seconds",
            "Building trie, layout, route and index arrays."),
      Stage(Metric::kDeviceSeconds, "canopy_device_seconds", "Running the model and its heads."),
      Stage(Metric::kEncodeQueueSeconds, "canopy_encode_queue_seconds",
            "Waiting for an encoding thread."),
      Stage(Metric::kEncodeSeconds, "canopy_encode_seconds", "Encoding an answer."),
      Stage(Metric::kTotalSeconds, "canopy_total_seconds",
            "From the first decoded byte to the last encoded byte."),
  };
}

std::vector<MetricDeclaration> ServerMetrics() {
  const std::string model_flag = "--model";
  const std::string loaded = "the loaded weights";
  return {
      Plain(Metric::kDeviceMemory, "canopy_device_memory_bytes", kGauge, "bytes",
            "Device memory: allocated by tensors, held by this process, and in total; 0 on a CPU.",
            {{"kind", {"allocated", "reserved", "total"}, ""}}),
      Plain(Metric::kCudaGraphs, "canopy_cuda_graphs", kGauge, "graphs",
            "Recorded forwards of all models."),
      Plain(Metric::kCudaGraphBytes, "canopy_cuda_graph_bytes", kGauge, "bytes",
            "Device memory that recorded forwards hold."),
      Plain(Metric::kReady, "canopy_ready", kGauge, "bool",
            "1 while calls are admitted; 0 while models load, while the server drains and after "
            "the device is lost."),
      Plain(Metric::kModelInfo, "canopy_model_info", kGauge, "info", "Loaded models; always 1.",
            {{"model", {}, model_flag},
             {"version", {}, loaded},
             {"fingerprint", {}, loaded},
             {"dtype", {}, "--dtype"},
             {"device", {}, "--device"}}),
      Plain(Metric::kModelVersion, "canopy_model_version", kGauge, "version",
            "Version of the loaded weights.", {{"model", {}, model_flag}}),
      Plain(Metric::kLimit, "canopy_limit", kGauge, "as the flag",
            "Limits in force, by the name of their flag.", {{"name", {}, "flags that are limits"}}),
      Plain(Metric::kBuildInfo, "canopy_build_info", kGauge, "info",
            "Version of this server; always 1.", {{"version", {}, "the program"}}),
      Plain(Metric::kRefusedConnections, "canopy_refused_connections_total", kCounter,
            "connections", "Connections refused because file descriptors were scarce."),
      Plain(Metric::kStalledCalls, "canopy_stalled_calls_total", kCounter, "calls",
            "Calls cut because their client did not read the answer."),
      Plain(Metric::kSuspiciousRawRequests, "canopy_suspicious_raw_requests_total", kCounter,
            "requests",
            "Requests with a `raw` in which every second value is zero: most likely the bytes of "
            "an int64 array, which mean other tokens."),
      Plain(Metric::kMemoryUsed, "canopy_memory_used_bytes", kGauge, "bytes",
            "Host memory that counts against the process's limit; 0 without one."),
      Plain(Metric::kMemoryLimit, "canopy_memory_limit_bytes", kGauge, "bytes",
            "Host memory limit of the process; 0 = none known."),
      Plain(Metric::kRequestMemory, "canopy_request_memory_bytes", kGauge, "bytes",
            "Host memory that unanswered requests may take, as estimated."),
      Plain(Metric::kLogLinesLeftOut, "canopy_log_lines_left_out_total", kCounter, "lines",
            "Log lines that were not written because of --log_lines_per_second."),
      Plain(Metric::kProcessOpenFds, "process_open_fds", kGauge, "descriptors",
            "Open file descriptors."),
      Plain(Metric::kProcessMaxFds, "process_max_fds", kGauge, "descriptors",
            "Limit of open file descriptors."),
      Plain(Metric::kProcessThreads, "process_threads", kGauge, "threads", "Threads."),
      Plain(Metric::kProcessResidentBytes, "process_resident_memory_bytes", kGauge, "bytes",
            "Resident host memory."),
      Plain(Metric::kProcessCpuSeconds, "process_cpu_seconds_total", kCounter, "seconds",
            "CPU time of all threads, user and system."),
      Plain(Metric::kProcessStartTime, "process_start_time_seconds", kGauge, "seconds",
            "Start time of this process, since the Unix epoch."),
  };
}

absl::string_view TypeName(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "unknown";
}

std::string LabelText(const MetricLabel& label) {
  return absl::StrCat("`", label.name, "`: ",
                      label.values.empty() ? absl::StrCat("from ", label.origin)
                                           : absl::StrJoin(label.values, ", "));
}

std::string Row(const MetricDeclaration& declaration) {
  std::vector<std::string> labels;
  for (const MetricLabel& label : declaration.labels) {
    labels.push_back(LabelText(label));
  }
  return absl::StrCat("| `", declaration.name, "` | ", TypeName(declaration.type), " | ",
                      declaration.unit, " | ", declaration.help, " | ",
                      absl::StrJoin(labels, "<br>"), " |\n");
}

}  // namespace

bool MetricDeclaration::closed() const {
  return absl::c_all_of(labels, [](const MetricLabel& label) { return !label.values.empty(); });
}

const std::vector<MetricDeclaration>& MetricTable() {
  static const auto* table = [] {
    auto* all = new std::vector<MetricDeclaration>();
    for (const auto& part : {RequestMetrics(), QueueMetrics(), WorkMetrics(), ServerMetrics()}) {
      all->insert(all->end(), part.begin(), part.end());
    }
    return all;
  }();
  return *table;
}

const MetricDeclaration& DeclarationOf(Metric metric) {
  return MetricTable()[static_cast<size_t>(metric)];
}

std::string MetricsPage() {
  std::string page = absl::StrCat(
      "# Metrics\n\n"
      "This page lists the metrics that `--metrics_listen=HOST:PORT` shows at `/metrics`.\n"
      "[OPERATING.md](OPERATING.md) says how to read them. `bazel run //tests/docs:print_metrics`\n"
      "writes this page, and a test compares the two.\n\n"
      "Series whose labels have closed sets of values exist from the start, with the value 0.\n"
      "Buckets of `_seconds` histograms go from 0.0001 to 60, each at most 1.6 times the one\n"
      "before. A label whose values come from the operator has at most ",
      kMaxOpenSeries, " series.\n\n",
      "| name | type | unit | meaning | labels |\n| --- | --- | --- | --- | --- |\n");
  for (const MetricDeclaration& declaration : MetricTable()) {
    page += Row(declaration);
  }
  return page;
}

}  // namespace canopy::server
