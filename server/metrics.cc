#include "server/metrics.h"

#include <algorithm>
#include <utility>

#include "prometheus/text_serializer.h"

namespace canopy::server {
namespace {

// From a tenth of a millisecond to a minute, six a decade: a bucket's end is 1.47 times its start.
const prometheus::Histogram::BucketBoundaries kSecondsBuckets = {
    0.0001, 0.00015, 0.00022, 0.00032, 0.00046, 0.00068, 0.001, 0.0015, 0.0022,
    0.0032, 0.0046,  0.0068,  0.01,    0.015,   0.022,   0.032, 0.046,  0.068,
    0.1,    0.15,    0.22,    0.32,    0.46,    0.68,    1,     1.5,    2.2,
    3.2,    4.6,     6.8,     10,      15,      22,      32,    46,     60};
const prometheus::Histogram::BucketBoundaries kRequestsBuckets = {1,  2,  3,  4,   6,   8,  12,
                                                                  16, 32, 64, 128, 256, 512};
const prometheus::Histogram::BucketBoundaries kFillBuckets = {0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4,
                                                              0.5,  0.6,  0.7,  0.8, 0.9, 1};

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

// Brings a counter of ours up to what the engine counted.
void Raise(prometheus::Counter& counter, double value) {
  counter.Increment(std::max(0.0, value - counter.Value()));
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
      stream_requests_(Family(prometheus::BuildCounter(), *registry_,
                              "canopy_stream_requests_total",
                              "Answered requests of ScoreStream calls by gRPC code.")),
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
      cuda_graphs_(AddGauge("canopy_cuda_graphs", "Recorded forwards of all models.")),
      cuda_graph_bytes_(
          AddGauge("canopy_cuda_graph_bytes", "Device memory that recorded forwards hold.")),
      queued_normal_(Family(prometheus::BuildGauge(), *registry_, "canopy_queued_requests",
                            "Requests that wait for the device, by priority.")
                         .Add({{"priority", "normal"}})),
      queued_low_(Family(prometheus::BuildGauge(), *registry_, "canopy_queued_requests",
                         "Requests that wait for the device, by priority.")
                      .Add({{"priority", "low"}})),
      queued_tokens_(Family(prometheus::BuildGauge(), *registry_, "canopy_queued_tokens",
                            "Path tokens, prefixes repeated, of requests that wait.")
                         .Add({})),
      accepted_(AddCounter("canopy_accepted_requests_total", "Requests that the queue took in.")),
      ended_(Family(prometheus::BuildCounter(), *registry_, "canopy_ended_requests_total",
                    "Accepted requests by how they ended.")),
      refused_(Family(prometheus::BuildCounter(), *registry_, "canopy_refused_requests_total",
                      "Requests that the queue did not take in, by reason.")),
      device_busy_(AddCounter("canopy_device_busy_seconds_total", "Time in which a forward ran.")),
      device_wasted_(AddCounter("canopy_wasted_device_seconds_total",
                                "Device time of requests that expired or were cancelled.")),
      forward_requests_(Family(prometheus::BuildHistogram(), *registry_, "canopy_forward_requests",
                               "Requests that shared a forward.")
                            .Add({}, kRequestsBuckets)),
      forward_fill_(Family(prometheus::BuildHistogram(), *registry_, "canopy_forward_fill_ratio",
                           "Computed tokens of a forward, of --max_batch_tokens.")
                        .Add({}, kFillBuckets)),
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
      queue_normal_(AddStage("canopy_queue_seconds", "Waiting for the device, by priority.",
                             {{"priority", "normal"}})),
      queue_low_(AddStage("canopy_queue_seconds", "Waiting for the device, by priority.",
                          {{"priority", "low"}})),
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

prometheus::Histogram& Metrics::AddStage(const char* name, const char* help,
                                         const prometheus::Labels& labels) {
  return Family(prometheus::BuildHistogram(), *registry_, name, help).Add(labels, kSecondsBuckets);
}

void Metrics::CallStarted(Method method) {
  in_flight_.Add({{"method", MethodName(method)}}).Increment();
}

void Metrics::CallFinished(Method method, grpc::StatusCode code) {
  in_flight_.Add({{"method", MethodName(method)}}).Decrement();
  requests_.Add({{"method", MethodName(method)}, {"code", CodeName(code)}}).Increment();
}

void Metrics::StreamRequestFinished(grpc::StatusCode code) {
  stream_requests_.Add({{"code", CodeName(code)}}).Increment();
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
  (observation.priority == Priority::kLow ? queue_low_ : queue_normal_)
      .Observe(observation.stages.queue_ms / kMillisecondsPerSecond);
  plan_.Observe(observation.stages.plan_ms / kMillisecondsPerSecond);
  device_.Observe(observation.stages.device_ms / kMillisecondsPerSecond);
  encode_.Observe(observation.encode_ms / kMillisecondsPerSecond);
  total_.Observe(observation.total_ms / kMillisecondsPerSecond);
}

void Metrics::ObserveForward(const ForwardRecord& forward, int64_t max_batch_tokens) {
  forward_requests_.Observe(static_cast<double>(forward.requests));
  forward_fill_.Observe(static_cast<double>(forward.computed_tokens) /
                        static_cast<double>(max_batch_tokens));
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

void Metrics::SetEngineSource(std::function<EngineStats()> stats) {
  absl::MutexLock lock(&mutex_);
  engine_source_ = std::move(stats);
}

void Metrics::ShowEngine(const EngineStats& stats) {
  queued_normal_.Set(static_cast<double>(stats.queued_normal));
  queued_low_.Set(static_cast<double>(stats.queued_low));
  queued_tokens_.Set(static_cast<double>(stats.queued_tokens));
  Raise(accepted_, static_cast<double>(stats.accepted));
  const std::pair<const char*, int64_t> ended[] = {{"answered", stats.answered},
                                                   {"displaced", stats.displaced},
                                                   {"expired", stats.expired},
                                                   {"cancelled", stats.cancelled}};
  for (const auto& [outcome, count] : ended) {
    Raise(ended_.Add({{"outcome", outcome}}), static_cast<double>(count));
  }
  const std::pair<const char*, int64_t> refused[] = {
      {"queued_requests", stats.refused_queued_requests},
      {"queued_tokens", stats.refused_queued_tokens},
      {"deadline", stats.refused_deadline},
      {"draining", stats.refused_draining}};
  for (const auto& [reason, count] : refused) {
    Raise(refused_.Add({{"reason", reason}}), static_cast<double>(count));
  }
  Raise(device_busy_, stats.device_seconds);
  Raise(device_wasted_, stats.wasted_device_seconds);
}

void Metrics::SetGraphSource(std::function<GraphUse()> graphs) {
  absl::MutexLock lock(&mutex_);
  graph_source_ = std::move(graphs);
}

std::string Metrics::Render() {
  {
    absl::MutexLock lock(&mutex_);
    if (engine_source_) {
      ShowEngine(engine_source_());
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
