// One serving process without its flags and signals: listeners, models, engine and service.
//
//   Create      binds the listeners; health checks are answered, calls are UNAVAILABLE
//   LoadModels  loads the models and creates the engine
//   Serve       makes the server ready
//   Drain       makes the server not ready; new calls are UNAVAILABLE, calls in progress finish
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

// Loads all models of `options` and creates their engine. Errors name the model. Sets the effective
// token budget in `options`. `on_forward` is that of Engine::Options.
absl::StatusOr<std::unique_ptr<Engine>> LoadEngine(const ModelLoader& loader,
                                                   ServerOptions* options,
                                                   Engine::ForwardObserver on_forward);

// Thread-compatible. The destructor cancels calls in progress.
class Server {
 public:
  // Returns UNAVAILABLE if an address cannot be bound.
  static absl::StatusOr<std::unique_ptr<Server>> Create(const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  absl::Status LoadModels(const ModelLoader& loader);
  // Makes the server ready. Precondition: LoadModels was called.
  void Serve();

  // Returns false after the engine has lost its device. Health checks fail from then on.
  bool CheckHealth();

  // Waits up to `timeout` for the calls in progress, then cancels them. Returns whether all of them
  // finished by themselves. No call is admitted afterwards.
  bool Drain(absl::Duration timeout);

  // Return HOST:PORT with the bound port; '' for a listener that is off. The first is always on.
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
  std::unique_ptr<AdminService> admin_service_;  // null if the listener is off
  // Declared before the listeners, which use the engine until they are destroyed.
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<MetricsListener> metrics_listener_;
  Listener health_listener_;
  Listener admin_listener_;
  Listener scoring_listener_;
  Health health_;
};

}  // namespace canopy::server

#endif  // SERVER_SERVER_H_
