#include "server/telemetry/metrics.h"

#include <algorithm>
#include <utility>

#include "base/logging.h"
#include "server/telemetry/process_stats.h"

namespace canopy::server {
namespace {

constexpr double kMillisecondsPerSecond = 1000;

size_t PriorityIndex(Priority priority) { return priority == Priority::kLow ? 1 : 0; }

size_t MethodIndex(Method method) { return static_cast<size_t>(method); }

}  // namespace

void Metrics::CallStarted(Method method) {
  if (enabled_) {
    registry_.gauge(Metric::kRequestsInFlight, MethodIndex(method)).Increment();
  }
}

void Metrics::CallFinished(Method method, grpc::StatusCode code, absl::string_view reason) {
  if (enabled_) {
    registry_.gauge(Metric::kRequestsInFlight, MethodIndex(method)).Decrement();
    registry_.counter(Metric::kRequests, MethodIndex(method), CodeIndex(code)).Increment();
    CountError(code, reason);
  }
}

void Metrics::StreamRequestFinished(grpc::StatusCode code, absl::string_view reason) {
  if (enabled_) {
    registry_.counter(Metric::kStreamRequests, CodeIndex(code)).Increment();
    CountError(code, reason);
  }
}

void Metrics::CountError(grpc::StatusCode code, absl::string_view reason) {
  if (code != grpc::StatusCode::OK) {
    registry_.counter(Metric::kErrors, ErrorReasonIndex(reason)).Increment();
  }
}

void Metrics::CallAbandoned(Method method) {
  if (enabled_) {
    registry_.counter(Metric::kAbandonedRequests, MethodIndex(method)).Increment();
  }
}

void Metrics::ConnectionRefused() {
  if (enabled_) {
    registry_.counter(Metric::kRefusedConnections).Increment();
  }
}

void Metrics::StalledCallCut() {
  if (enabled_) {
    registry_.counter(Metric::kStalledCalls).Increment();
  }
}

void Metrics::SuspiciousRawRequest() {
  if (enabled_) {
    registry_.counter(Metric::kSuspiciousRawRequests).Increment();
  }
}

void Metrics::ObserveStage(Metric metric, double milliseconds, size_t label) {
  registry_.histogram(metric, label).Observe(milliseconds / kMillisecondsPerSecond);
}

void Metrics::Observe(const ScoreObservation& observation) {
  if (!enabled_) {
    return;
  }
  const std::pair<Metric, int64_t> counts[] = {
      {Metric::kPaths, observation.paths},
      {Metric::kUnscoredPaths, observation.unscored_paths},
      {Metric::kPadEndedRequests, observation.is_pad_ended ? 1 : 0},
      {Metric::kPathTokens, observation.counts.path_tokens},
      {Metric::kInputTokens, observation.counts.input_tokens},
      {Metric::kUniqueTokens, observation.counts.unique_tokens},
      {Metric::kComputedTokens, observation.computed_tokens}};
  for (const auto& [metric, count] : counts) {
    registry_.counter(metric).Increment(static_cast<double>(count));
  }
  registry_
      .counter(Metric::kRoutes, BackendIndex(observation.route.backend),
               RouteReasonIndex(observation.route.reason))
      .Increment();
  ObserveStage(Metric::kDecodeSeconds, observation.decode_ms);
  ObserveStage(Metric::kQueueSeconds, observation.stages.queue_ms,
               PriorityIndex(observation.priority));
  ObserveStage(Metric::kPlanSeconds, observation.stages.plan_ms);
  ObserveStage(Metric::kDeviceSeconds, observation.stages.device_ms);
  ObserveStage(Metric::kEncodeQueueSeconds, observation.encode_queue_ms);
  ObserveStage(Metric::kEncodeSeconds, observation.encode_ms);
  ObserveStage(Metric::kTotalSeconds, observation.total_ms);
}

void Metrics::ObserveForward(const ForwardRecord& forward, int64_t max_batch_tokens) {
  if (!enabled_) {
    return;
  }
  registry_.histogram(Metric::kForwardRequests).Observe(static_cast<double>(forward.requests));
  registry_.histogram(Metric::kForwardFill)
      .Observe(static_cast<double>(forward.computed_tokens) /
               static_cast<double>(max_batch_tokens));
}

void Metrics::SetBuild(absl::string_view version) {
  MutexLock lock(&mutex_);
  registry_.SetOpen(Metric::kBuildInfo, {std::string(version)}, 1);
}

void Metrics::SetLimit(absl::string_view name, int64_t value) {
  MutexLock lock(&mutex_);
  registry_.SetOpen(Metric::kLimit, {std::string(name)}, static_cast<double>(value));
}

void Metrics::SetReady(bool ready) { registry_.gauge(Metric::kReady).Set(ready ? 1 : 0); }

void Metrics::SetEngineSource(std::function<EngineSnapshot()> source) {
  MutexLock lock(&mutex_);
  engine_source_ = std::move(source);
}

void Metrics::Raise(Metric metric, size_t label, double value) {
  prometheus::Counter& counter = registry_.counter(metric, label);
  counter.Increment(std::max(0.0, value - counter.Value()));
}

void Metrics::ShowEngine(const EngineSnapshot& engine) {
  const EngineStats& stats = engine.stats;
  // The rows are in the order of the declared label values.
  const struct {
    Metric metric;
    size_t label;
    int64_t value;
  } counts[] = {
      {Metric::kAcceptedRequests, 0, stats.accepted},
      {Metric::kEndedRequests, 0, stats.answered},
      {Metric::kEndedRequests, 1, stats.displaced},
      {Metric::kEndedRequests, 2, stats.expired},
      {Metric::kEndedRequests, 3, stats.cancelled},
      {Metric::kRefusedRequests, 0, stats.refused_queued_requests},
      {Metric::kRefusedRequests, 1, stats.refused_queued_tokens},
      {Metric::kRefusedRequests, 2, stats.refused_deadline},
      {Metric::kRefusedRequests, 3, stats.refused_draining},
      {Metric::kOutOfMemoryForwards, 0, stats.out_of_memory_forwards},
  };
  for (const auto& count : counts) {
    Raise(count.metric, count.label, static_cast<double>(count.value));
  }
  Raise(Metric::kDeviceBusySeconds, 0, stats.device_seconds);
  Raise(Metric::kWastedDeviceSeconds, 0, stats.wasted_device_seconds);
  const struct {
    Metric metric;
    size_t label;
    int64_t value;
  } gauges[] = {
      {Metric::kQueuedRequests, PriorityIndex(Priority::kNormal), stats.queued_normal},
      {Metric::kQueuedRequests, PriorityIndex(Priority::kLow), stats.queued_low},
      {Metric::kQueuedTokens, 0, stats.queued_tokens},
      {Metric::kDeviceMemory, 0, engine.memory.allocated_bytes},
      {Metric::kDeviceMemory, 1, engine.memory.reserved_bytes},
      {Metric::kDeviceMemory, 2, engine.memory.total_bytes},
      {Metric::kCudaGraphs, 0, engine.graphs.count},
      {Metric::kCudaGraphBytes, 0, engine.graphs.bytes},
  };
  for (const auto& gauge : gauges) {
    registry_.gauge(gauge.metric, gauge.label).Set(static_cast<double>(gauge.value));
  }
}

void Metrics::ShowModels(const EngineSnapshot& engine) {
  if (engine.models == shown_models_) {
    return;
  }
  // A new version of a model has other label values, so the old series are removed.
  registry_.ClearOpen(Metric::kModelInfo);
  registry_.ClearOpen(Metric::kModelVersion);
  for (const auto& model : engine.models) {
    registry_.SetOpen(Metric::kModelInfo,
                      {model->name, std::to_string(model->version), model->fingerprint,
                       model->dtype, model->device},
                      1);
    registry_.SetOpen(Metric::kModelVersion, {model->name}, static_cast<double>(model->version));
  }
  shown_models_ = engine.models;
}

void Metrics::SetMemorySource(std::function<MemoryStats()> source) {
  MutexLock lock(&mutex_);
  memory_source_ = std::move(source);
}

void Metrics::ShowMemory(const MemoryStats& stats) {
  registry_.gauge(Metric::kMemoryUsed).Set(static_cast<double>(stats.use.used_bytes));
  registry_.gauge(Metric::kMemoryLimit).Set(static_cast<double>(stats.use.limit_bytes));
  registry_.gauge(Metric::kRequestMemory).Set(static_cast<double>(stats.reserved_bytes));
  Raise(Metric::kRefusedRequests, 4, static_cast<double>(stats.refused));
}

void Metrics::ShowProcess() {
  const ProcessStats process = ReadProcessStats();
  registry_.gauge(Metric::kProcessOpenFds).Set(static_cast<double>(process.open_fds));
  registry_.gauge(Metric::kProcessMaxFds).Set(static_cast<double>(process.max_fds));
  registry_.gauge(Metric::kProcessThreads).Set(static_cast<double>(process.threads));
  registry_.gauge(Metric::kProcessResidentBytes).Set(static_cast<double>(process.resident_bytes));
  registry_.gauge(Metric::kProcessStartTime).Set(process.start_time_seconds);
  Raise(Metric::kProcessCpuSeconds, 0, process.cpu_seconds);
  Raise(Metric::kLogLinesLeftOut, 0, static_cast<double>(LogLinesLeftOut()));
}

std::string Metrics::Render() {
  MutexLock lock(&mutex_);
  ShowProcess();
  if (memory_source_) {
    ShowMemory(memory_source_());
  }
  if (engine_source_) {
    const EngineSnapshot engine = engine_source_();
    ShowEngine(engine);
    ShowModels(engine);
  }
  return registry_.Render();
}

}  // namespace canopy::server
