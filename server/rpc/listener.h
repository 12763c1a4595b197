// Builds a gRPC server on one plaintext address, with the settings that all listeners share.
#ifndef SERVER_RPC_LISTENER_H_
#define SERVER_RPC_LISTENER_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/server.h"
#include "server/net/connection_acceptor.h"
#include "server/rpc/call_options.h"

namespace canopy::server {

struct ListenerOptions {
  std::string address;  // HOST:PORT; port 0 = any free port
  ConnectionLimits limits;
  bool reflection = false;
  std::function<void()> connection_refused;  // called for each refused connection; may be null
  // The text of UNIMPLEMENTED for calls of other services; '' = the empty text of gRPC.
  std::string other_services;
};

// Answers every call with UNIMPLEMENTED and the same text.
class OtherServices final : public grpc::CallbackGenericService {
 public:
  explicit OtherServices(std::string text) : text_(std::move(text)) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

 private:
  const std::string text_;
};

// The members are destroyed from the last to the first, as gRPC requires.
struct Listener {
  // Null if gRPC answers calls of other services.
  std::unique_ptr<OtherServices> other_services;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<ConnectionAcceptor> acceptor;

  // Returns HOST:PORT with the bound port; '' = not started.
  std::string address() const { return acceptor == nullptr ? "" : acceptor->address(); }
  // Accepts no more connections and closes the open ones at `deadline` at the latest, which cancels
  // calls in progress. Returns when all calls have ended.
  void Shutdown(std::chrono::steady_clock::time_point deadline);
};

// Starts to answer calls to `service` (not owned, null = none) and to the health service. Without a
// service `other_services` must be set, because gRPC starts no server without a service. Returns
// UNAVAILABLE if the address cannot be bound.
absl::StatusOr<Listener> StartListener(const ListenerOptions& options, grpc::Service* service);

}  // namespace canopy::server

#endif  // SERVER_RPC_LISTENER_H_
