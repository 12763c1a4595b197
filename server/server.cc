#include "server/server.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/logging.h"
#include "base/memory_use.h"
#include "base/status_macros.h"
#include "base/version.h"

namespace canopy::server {
namespace {

// For clients to close their connections, once scoring has ended.
constexpr auto kShutdownGrace = std::chrono::seconds(1);
// For clients to read the last answers: a connection that is closed on its client while that still
// sends loses what the client has not read.
constexpr absl::Duration kLastAnswersTime = absl::Milliseconds(100);
// A request of the Admin service is three short strings.
constexpr int kMaxAdminRequestBytes = 64 << 10;

CallLimits CallLimitsOf(const ServerOptions& options) {
  CallLimits limits;
  limits.request = options.limits;
  limits.max_stream_in_flight = options.max_stream_in_flight;
  limits.encode_threads = options.encode_threads;
  limits.max_request_memory_bytes = options.max_request_memory_bytes;
  limits.write_timeout = options.write_timeout;
  limits.log_requests = options.log_requests;
  if (options.memory_limit_bytes > 0) {
    limits.read_memory = [limit = options.memory_limit_bytes] {
      return MemoryUse{ResidentBytes(), limit};
    };
  } else {
    limits.read_memory = [group = GroupMemory()] { return group.Read(); };
  }
  return limits;
}

// Tells whoever calls the wrong listener which one it is, and where to go.
std::string OtherServicesText(absl::string_view flag, absl::string_view purpose,
                              const std::string& scoring_address) {
  return absl::StrCat("this is the server's --", flag, ", which only ", purpose,
                      "; canopy.v1.Scorer is on port ",
                      scoring_address.substr(scoring_address.rfind(':') + 1), " (--listen)");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> LoadEngine(const ModelLoader& loader,
                                                   ServerOptions* options,
                                                   Engine::ForwardObserver on_forward) {
  std::vector<std::unique_ptr<ModelRunner>> runners;
  for (const ModelSource& model : options->models) {
    absl::StatusOr<std::unique_ptr<ModelRunner>> runner = loader.load(model, *options, nullptr);
    if (!runner.ok()) {
      return absl::Status(runner.status().code(),
                          absl::StrCat("--model ", model.name, ": ", runner.status().message()));
    }
    const ModelInfo& info = *(*runner)->info();
    LogInfo("model_loaded", {{"name", info.name},
                             {"architecture", info.architecture},
                             {"parameters", info.parameters},
                             {"fingerprint", info.fingerprint},
                             {"dtype", info.dtype},
                             {"device", info.device},
                             {"policy", PolicyName(info.default_policy)},
                             {"policy_reason", info.policy_reason},
                             {"fused", info.fused_supported ? "runs" : info.fused_reason},
                             {"max_path_tokens", info.max_path_tokens}});
    runners.push_back(*std::move(runner));
  }
  if (options->max_batch_tokens == 0) {
    options->max_batch_tokens = loader.default_batch_tokens(runners.front()->info()->device);
  }
  Engine::Options engine_options;
  engine_options.max_batch_tokens = options->max_batch_tokens;
  engine_options.max_batch_bytes = options->max_batch_bytes;
  engine_options.batch_window = options->batch_window;
  engine_options.low_priority_patience = options->low_priority_patience;
  engine_options.share_across_tenants = options->share_across_tenants;
  engine_options.on_forward = std::move(on_forward);
  engine_options.max_queued_requests = options->max_queued_requests;
  engine_options.max_queued_tokens = options->max_queued_tokens;
  engine_options.default_backend = options->backend;
  engine_options.default_packing = options->packing;
  engine_options.max_mask_bytes = options->limits.max_mask_bytes;
  return Engine::Create(engine_options, std::move(runners));
}

Server::Server(const ServerOptions& options)
    : options_(options),
      metrics_(/*enabled=*/!options.metrics_listen.empty()),
      context_(std::make_unique<ServiceContext>(CallLimitsOf(options), &gate_, &metrics_)),
      service_(std::make_unique<ScoreService>(context_.get())) {
  metrics_.SetBuild(kVersion);
  metrics_.SetMemorySource([context = context_.get()] { return context->memory.stats(); });
  if (!options.admin_listen.empty()) {
    admin_service_ = std::make_unique<AdminService>(context_.get());
  }
}

absl::StatusOr<std::unique_ptr<Server>> Server::Create(const ServerOptions& options) {
  std::unique_ptr<Server> server(new Server(options));
  CANOPY_RETURN_IF_ERROR(server->Listen());
  return server;
}

absl::Status Server::Listen() {
  ListenerOptions listener;
  listener.address = options_.listen;
  listener.max_request_bytes = static_cast<int>(options_.max_request_bytes);
  listener.max_concurrent_streams = options_.max_concurrent_streams;
  listener.reflection = options_.reflection;
  listener.connection_refused = [this] { metrics_.ConnectionRefused(); };
  CANOPY_ASSIGN_OR_RETURN(scoring_listener_, StartListener(listener, service_.get()));
  health_.Add(scoring_listener_.server.get());
  LogInfo("listening", {{"service", "canopy.v1.Scorer"}, {"address", address()}});

  if (!options_.health_listen.empty()) {
    listener.other_services =
        OtherServicesText("health_listen", "answers health checks", address());
    listener.address = options_.health_listen;
    listener.reflection = false;
    CANOPY_ASSIGN_OR_RETURN(health_listener_, StartListener(listener, nullptr));
    health_.Add(health_listener_.server.get());
    LogInfo("listening", {{"service", "grpc.health.v1.Health"}, {"address", health_address()}});
  }
  if (admin_service_ != nullptr) {
    listener.other_services = OtherServicesText("admin_listen", "loads weights", address());
    listener.address = options_.admin_listen;
    listener.max_request_bytes = kMaxAdminRequestBytes;
    listener.reflection = false;
    CANOPY_ASSIGN_OR_RETURN(admin_listener_, StartListener(listener, admin_service_.get()));
    health_.Add(admin_listener_.server.get());
    LogInfo("listening", {{"service", "canopy.v1.Admin"}, {"address", admin_address()}});
  }
  if (!options_.metrics_listen.empty()) {
    CANOPY_ASSIGN_OR_RETURN(
        metrics_listener_,
        MetricsListener::Start(options_.metrics_listen, [this] { return metrics_.Render(); }));
    LogInfo("listening", {{"service", "metrics"}, {"address", metrics_address()}});
  }
  return absl::OkStatus();
}

absl::Status Server::LoadModels(const ModelLoader& loader) {
  CANOPY_ASSIGN_OR_RETURN(engine_,
                          LoadEngine(loader, &options_, [this](const ForwardRecord& forward) {
                            metrics_.ObserveForward(forward, options_.max_batch_tokens);
                          }));
  if (admin_service_ != nullptr) {
    admin_service_->SetLoader(std::make_unique<WeightLoader>(loader, options_, engine_.get()));
  }
  return absl::OkStatus();
}

void Server::Serve() {
  const LimitMap limits = options_.Limits();
  std::vector<LogField> fields;
  for (const auto& [name, value] : limits) {
    metrics_.SetLimit(name, value);
    fields.emplace_back(name, value);
  }
  LogInfo("limits", fields);
  metrics_.SetEngineSource([engine = engine_.get()] {
    return EngineSnapshot{engine->stats(), engine->graphs(), engine->device_memory(),
                          engine->models()};
  });
  gate_.Open({engine_.get(), limits});
  SetReady(true);
  LogInfo("serving", {{"address", address()}, {"version", kVersion}});
}

void Server::SetReady(bool ready) {
  health_.SetReady(ready);
  metrics_.SetReady(ready);
}

bool Server::CheckHealth() {
  if (engine_ == nullptr || engine_->healthy()) {
    return true;
  }
  health_.SetDead();
  metrics_.SetReady(false);
  return false;
}

bool Server::Drain(absl::Duration timeout) {
  SetReady(false);
  gate_.StartDraining();
  const bool finished = gate_.AwaitIdle(timeout);
  if (finished) {
    absl::SleepFor(std::min(timeout, kLastAnswersTime));
  }
  // Ends the connections; what is still in flight is cancelled.
  const auto deadline = std::chrono::steady_clock::now() + kShutdownGrace;
  scoring_listener_.Shutdown(deadline);
  health_listener_.Shutdown(deadline);
  admin_listener_.Shutdown(deadline);
  return finished;
}

Server::~Server() { Drain(absl::ZeroDuration()); }

}  // namespace canopy::server
