// Accepts connections for a gRPC server.
//
// gRPC 1.51's own listener stops for ever after one accept without a free descriptor
// (CVE-2023-4785). This one goes on, and turns connections away while descriptors are scarce.
#ifndef SERVER_NET_CONNECTION_ACCEPTOR_H_
#define SERVER_NET_CONNECTION_ACCEPTOR_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "grpcpp/server_builder.h"
#include "server/net/listen_socket.h"

namespace canopy::server {

// Takes as many descriptors as the system lets this process have. Once, at start.
void RaiseDescriptorLimit();

// Thread-compatible. Must be stopped before its gRPC server is destroyed.
class ConnectionAcceptor {
 public:
  // `sink`: where `socket`'s connections go. `refused`: called for each that is turned away; may be
  // null.
  ConnectionAcceptor(std::unique_ptr<ListenSocket> socket,
                     std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> sink,
                     std::function<void()> refused);
  ~ConnectionAcceptor() { Stop(); }
  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;

  const std::string& address() const { return address_; }

  // Closes the socket: later connections are refused by the system. May be repeated.
  void Stop();

  // After Stop. Tells the clients that nothing comes any more on their connections, behind what
  // gRPC has written, and waits until they have closed them too, until `deadline` at most. Calls in
  // flight end there as with a server that is gone: UNAVAILABLE.
  void EndConnections(std::chrono::steady_clock::time_point deadline);

 private:
  void Loop();

  const std::string address_;
  std::unique_ptr<ListenSocket> socket_;  // null once stopped
  const std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> sink_;
  const std::function<void()> refused_;
  // Each connection's identity by its descriptor. gRPC owns the descriptor and may have closed it:
  // the number is still the same connection while it has this identity. Belongs to the thread until
  // that has ended.
  absl::flat_hash_map<int, uint64_t> connections_;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace canopy::server

#endif  // SERVER_NET_CONNECTION_ACCEPTOR_H_
