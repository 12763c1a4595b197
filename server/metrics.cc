#include "server/metrics.h"

#include <utility>

#include "prometheus/text_serializer.h"

namespace canopy::server {
namespace {

// From a tenth of a millisecond to half a minute, about two a doubling where requests live.
const prometheus::Histogram::BucketBoundaries kSecondsBuckets = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1,    0.25,    0.5,    1,     2.5,    5,     10,   30};

constexpr double kMillisecondsPerSecond = 1000;

const char* MethodName(Method method) {
  switch (method) {
    case Method::kScore:
      return "Score";
    case Method::kScoreStream:
      return "ScoreStream";
    case Method::kExplain:
      return "Explain";
    case Method::kGetModel:
      return "GetModel";
    case Method::kListModels:
      return "ListModels";
  }
  return "unknown";
}

const char* CodeName(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::OK:
      return "OK";
    case grpc::StatusCode::CANCELLED:
      return "CANCELLED";
    case grpc::StatusCode::INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return "DEADLINE_EXCEEDED";
    case grpc::StatusCode::NOT_FOUND:
      return "NOT_FOUND";
    case grpc::StatusCode::PERMISSION_DENIED:
      return "PERMISSION_DENIED";
    case grpc::StatusCode::UNAUTHENTICATED:
      return "UNAUTHENTICATED";
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return "RESOURCE_EXHAUSTED";
    case grpc::StatusCode::FAILED_PRECONDITION:
      return "FAILED_PRECONDITION";
    case grpc::StatusCode::UNIMPLEMENTED:
      return "UNIMPLEMENTED";
    case grpc::StatusCode::INTERNAL:
      return "INTERNAL";
    case grpc::StatusCode::UNAVAILABLE:
      return "UNAVAILABLE";
    default:
      return "UNKNOWN";
  }
}

std::string ReasonLabel(Reason reason) {
  return reason == Reason::kNone ? "none" : std::string(ReasonName(reason));
}

template <typename Builder>
auto& Family(Builder builder, prometheus::Registry& registry, const char* name, const char* help) {
  return builder.Name(name).Help(help).Register(registry);
}

}  // namespace

Metrics::Metrics()
    : registry_(std::make_unique<prometheus::Registry>()),
      requests_(Family(prometheus::BuildCounter(), *registry_, "canopy_requests_total",
                       "Answered calls by method and gRPC code.")),
      in_flight_(Family(prometheus::BuildGauge(), *registry_, "canopy_requests_in_flight",
                        "Calls that are not answered yet.")),
      abandoned_(Family(prometheus::BuildCounter(), *registry_, "canopy_abandoned_requests_total",
                        "Calls whose client went away or whose deadline passed unanswered.")),
      routes_(Family(prometheus::BuildCounter(), *registry_, "canopy_routes_total",
                     "Scored requests by the backend that ran and why.")),
      limits_(Family(prometheus::BuildGauge(), *registry_, "canopy_limit",
                     "Limits in force, by name.")),
      models_(Family(prometheus::BuildGauge(), *registry_, "canopy_model_info",
                     "Loaded models; always 1.")),
      build_(Family(prometheus::BuildGauge(), *registry_, "canopy_build_info",
                    "Version of this server; always 1.")),
      queued_requests_(AddGauge("canopy_queued_requests", "Requests that wait for the device.")),
      cuda_graphs_(AddGauge("canopy_cuda_graphs", "Recorded forwards of all models.")),
      cuda_graph_bytes_(
          AddGauge("canopy_cuda_graph_bytes", "Device memory that recorded forwards hold.")),
      refused_connections_(AddCounter("canopy_refused_connections_total",
                                      "Connections turned away for want of descriptors.")),
      paths_(AddCounter("canopy_paths_total", "Candidate paths of scored requests.")),
      unscored_paths_(AddCounter("canopy_unscored_paths_total",
                                 "Candidate paths whose result was not finite.")),
      path_tokens_(
          AddCounter("canopy_path_tokens_total", "Paths times longest path of scored requests.")),
      input_tokens_(
          AddCounter("canopy_input_tokens_total", "Sum of path lengths of scored requests.")),
      unique_tokens_(AddCounter("canopy_unique_tokens_total",
                                "Trie nodes of scored requests that a trie was built for.")),
      computed_tokens_(
          AddCounter("canopy_computed_tokens_total", "Token slots that the device ran.")),
      decode_(AddStage("canopy_decode_seconds", "Bytes to checked token arrays.")),
      queue_(AddStage("canopy_queue_seconds", "Waiting for the device.")),
      plan_(AddStage("canopy_plan_seconds", "Trie, layout, route and index arrays.")),
      device_(AddStage("canopy_device_seconds", "Running the model and its heads.")),
      encode_(AddStage("canopy_encode_seconds", "Results to bytes.")),
      total_(AddStage("canopy_total_seconds", "First byte decoded to last byte encoded.")) {}

prometheus::Counter& Metrics::AddCounter(const char* name, const char* help) {
  return Family(prometheus::BuildCounter(), *registry_, name, help).Add({});
}

prometheus::Gauge& Metrics::AddGauge(const char* name, const char* help) {
  return Family(prometheus::BuildGauge(), *registry_, name, help).Add({});
}

prometheus::Histogram& Metrics::AddStage(const char* name, const char* help) {
  return Family(prometheus::BuildHistogram(), *registry_, name, help).Add({}, kSecondsBuckets);
}

void Metrics::CallStarted(Method method) {
  in_flight_.Add({{"method", MethodName(method)}}).Increment();
}

void Metrics::CallFinished(Method method, grpc::StatusCode code) {
  in_flight_.Add({{"method", MethodName(method)}}).Decrement();
  requests_.Add({{"method", MethodName(method)}, {"code", CodeName(code)}}).Increment();
}

void Metrics::CallAbandoned(Method method) {
  abandoned_.Add({{"method", MethodName(method)}}).Increment();
}

void Metrics::Observe(const ScoreObservation& observation) {
  routes_
      .Add({{"backend", std::string(BackendName(observation.route.backend))},
            {"reason", ReasonLabel(observation.route.reason)}})
      .Increment();
  paths_.Increment(static_cast<double>(observation.paths));
  unscored_paths_.Increment(static_cast<double>(observation.unscored_paths));
  path_tokens_.Increment(static_cast<double>(observation.counts.path_tokens));
  input_tokens_.Increment(static_cast<double>(observation.counts.input_tokens));
  unique_tokens_.Increment(static_cast<double>(observation.counts.unique_tokens));
  computed_tokens_.Increment(static_cast<double>(observation.computed_tokens));
  decode_.Observe(observation.decode_ms / kMillisecondsPerSecond);
  queue_.Observe(observation.stages.queue_ms / kMillisecondsPerSecond);
  plan_.Observe(observation.stages.plan_ms / kMillisecondsPerSecond);
  device_.Observe(observation.stages.device_ms / kMillisecondsPerSecond);
  encode_.Observe(observation.encode_ms / kMillisecondsPerSecond);
  total_.Observe(observation.total_ms / kMillisecondsPerSecond);
}

void Metrics::SetBuild(absl::string_view version) {
  build_.Add({{"version", std::string(version)}}).Set(1);
}

void Metrics::SetModel(const ModelInfo& model) {
  models_
      .Add({{"model", model.name},
            {"version", std::to_string(model.version)},
            {"fingerprint", model.fingerprint},
            {"dtype", model.dtype},
            {"device", model.device}})
      .Set(1);
}

void Metrics::SetLimit(absl::string_view name, int64_t value) {
  limits_.Add({{"name", std::string(name)}}).Set(static_cast<double>(value));
}

void Metrics::SetQueueDepthSource(std::function<int64_t()> queued_requests) {
  absl::MutexLock lock(&mutex_);
  queue_depth_source_ = std::move(queued_requests);
}

void Metrics::SetGraphSource(std::function<GraphUse()> graphs) {
  absl::MutexLock lock(&mutex_);
  graph_source_ = std::move(graphs);
}

std::string Metrics::Render() {
  {
    absl::MutexLock lock(&mutex_);
    if (queue_depth_source_) {
      queued_requests_.Set(static_cast<double>(queue_depth_source_()));
    }
    if (graph_source_) {
      const GraphUse graphs = graph_source_();
      cuda_graphs_.Set(static_cast<double>(graphs.count));
      cuda_graph_bytes_.Set(static_cast<double>(graphs.bytes));
    }
  }
  return prometheus::TextSerializer().Serialize(registry_->Collect());
}

}  // namespace canopy::server
