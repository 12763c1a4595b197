// Accepts connections for a gRPC server.
//
// gRPC 1.51's own listener stops for good after one accept without a free descriptor
// (CVE-2023-4785). This class continues, and refuses connections while descriptors are scarce.
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

// Raises the limit of open descriptors as far as the system permits. Call it once, at the start.
void RaiseDescriptorLimit();

// Thread-compatible. Must be stopped before its gRPC server is destroyed.
class ConnectionAcceptor {
 public:
  // `sink` receives the connections of `socket`. `refused` is called for each refused connection;
  // it may be null.
  ConnectionAcceptor(std::unique_ptr<ListenSocket> socket,
                     std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> sink,
                     std::function<void()> refused);
  ~ConnectionAcceptor() { Stop(); }
  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;

  const std::string& address() const { return address_; }

  // Closes the socket, so that the system refuses later connections. May be called again.
  void Stop();

  // Ends the open connections; call it after Stop. Sends the clients the end of the stream after
  // everything that gRPC has written, and waits until they have closed their side, until `deadline`
  // at most. Calls in progress end with UNAVAILABLE, as if the server had gone away.
  void EndConnections(std::chrono::steady_clock::time_point deadline);

 private:
  void Loop();

  const std::string address_;
  std::unique_ptr<ListenSocket> socket_;  // null after Stop
  const std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> sink_;
  const std::function<void()> refused_;
  // The identity of each connection, by its descriptor. gRPC owns the descriptors and may have
  // closed them: a number refers to the same connection only while it has this identity. Used by
  // the thread only, until the thread has ended.
  absl::flat_hash_map<int, uint64_t> connections_;
  std::thread thread_;  // last, because it uses everything above
};

}  // namespace canopy::server

#endif  // SERVER_NET_CONNECTION_ACCEPTOR_H_
