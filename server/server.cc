#include "server/server.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/logging.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "core/engine/batch_tokens.h"

namespace canopy::server {
namespace {

// The time that clients have to close their connections after scoring has ended.
constexpr auto kShutdownGrace = std::chrono::seconds(1);
// The time that clients have to read the last answers. If the server closes a connection on which
// the client is still sending, the client loses the answers that it has not read.
constexpr absl::Duration kLastAnswersTime = absl::Milliseconds(100);
// A request of the Admin service is three short strings.
constexpr int kMaxAdminRequestBytes = 64 << 10;

// Returns the error text for calls on the wrong listener: the listener's purpose, and where to go
// instead.
std::string OtherServicesText(absl::string_view flag, absl::string_view purpose,
                              const std::string& scoring_address) {
  return absl::StrCat("this is the server's --", flag, ", which only ", purpose,
                      "; canopy.v1.Scorer is on port ",
                      scoring_address.substr(scoring_address.rfind(':') + 1), " (--listen)");
}

// GetModel and the log show the resulting number of threads, even if the option is 0.
ServerOptions WithEffectiveThreads(ServerOptions options) {
  options.calls.encode_threads = ServiceContext::NumEncodeThreads(options.calls.encode_threads);
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> LoadEngine(const ModelLoader& loader,
                                                   ServerOptions* options,
                                                   Engine::ForwardObserver on_forward) {
  std::vector<std::unique_ptr<ModelRunner>> runners;
  for (const ModelSource& model : options->models) {
    absl::StatusOr<std::unique_ptr<ModelRunner>> runner = loader(model, options->model, nullptr);
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
  if (options->model.max_batch_tokens == 0) {
    options->model.max_batch_tokens = DefaultBatchTokens(runners.front()->info()->device);
  }
  Engine::Options engine = options->engine;
  engine.scheduler.max_batch_tokens = options->model.max_batch_tokens;
  engine.max_mask_bytes = options->calls.request.max_mask_bytes;
  engine.on_forward = std::move(on_forward);
  return Engine::Create(engine, std::move(runners));
}

Server::Server(const ServerOptions& options)
    : options_(WithEffectiveThreads(options)),
      metrics_(/*enabled=*/!options.metrics_listen.empty()),
      context_(std::make_unique<ServiceContext>(options_.calls, &gate_, &metrics_)),
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
  listener.limits = options_.connections;
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
    listener.limits.max_request_bytes = kMaxAdminRequestBytes;
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
                            metrics_.ObserveForward(forward, options_.model.max_batch_tokens);
                          }));
  if (admin_service_ != nullptr) {
    admin_service_->SetLoader(std::make_unique<WeightLoader>(
        loader, WeightLoader::Options{options_.model, options_.weights_root}, engine_.get()));
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
  // Closes the connections and cancels the calls that are still in progress.
  const auto deadline = std::chrono::steady_clock::now() + kShutdownGrace;
  scoring_listener_.Shutdown(deadline);
  health_listener_.Shutdown(deadline);
  admin_listener_.Shutdown(deadline);
  return finished;
}

Server::~Server() { Drain(absl::ZeroDuration()); }

}  // namespace canopy::server
