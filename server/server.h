// One serving process without its flags and signals: listeners, models, engine, service.
//
//   Create      binds the listeners; health answers, calls are UNAVAILABLE
//   LoadModels  loads and makes the engine
//   Serve       ready
//   Drain       not ready, new calls UNAVAILABLE, calls in flight finish
#ifndef SERVER_SERVER_H_
#define SERVER_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/engine/engine.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/call_gate.h"
#include "server/rpc/health.h"
#include "server/rpc/listener.h"
#include "server/rpc/model_loader.h"
#include "server/rpc/score_service.h"
#include "server/rpc/service_context.h"
#include "server/server_options.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/metrics_listener.h"

namespace canopy::server {

// Loads all models of `options` and makes their engine. Errors name the model; `options` gets the
// token budget in force. `on_forward` as Engine::Options has it.
absl::StatusOr<std::unique_ptr<Engine>> LoadEngine(const ModelLoader& loader,
                                                   ServerOptions* options,
                                                   Engine::ForwardObserver on_forward);

// Thread-compatible. The destructor cancels calls in flight.
class Server {
 public:
  // UNAVAILABLE when an address cannot be bound.
  static absl::StatusOr<std::unique_ptr<Server>> Create(const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  absl::Status LoadModels(const ModelLoader& loader);
  // After LoadModels.
  void Serve();

  // False once the engine lost its device: health says so from then on.
  bool CheckHealth();

  // Lets calls in flight finish for up to `timeout`, then cancels them. Returns whether all of them
  // finished by themselves. No call is let in afterwards.
  bool Drain(absl::Duration timeout);

  // HOST:PORT with the bound ports; all but the first '' when off.
  std::string address() const { return scoring_listener_.address(); }
  std::string metrics_address() const {
    return metrics_listener_ == nullptr ? "" : metrics_listener_->address();
  }
  std::string health_address() const { return health_listener_.address(); }
  std::string admin_address() const { return admin_listener_.address(); }

 private:
  explicit Server(const ServerOptions& options);
  absl::Status Listen();
  void SetReady(bool ready);

  ServerOptions options_;
  Metrics metrics_;
  CallGate gate_;
  std::unique_ptr<ServiceContext> context_;
  std::unique_ptr<ScoreService> service_;
  std::unique_ptr<AdminService> admin_service_;  // null when off
  // Before the listeners, which use it until they are gone.
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<MetricsListener> metrics_listener_;
  Listener health_listener_;
  Listener admin_listener_;
  Listener scoring_listener_;
  Health health_;
};

}  // namespace canopy::server

#endif  // SERVER_SERVER_H_
