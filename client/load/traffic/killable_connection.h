// A connection that can be cut in the middle of a call, as if the client's process were killed.
#ifndef CLIENT_LOAD_TRAFFIC_KILLABLE_CONNECTION_H_
#define CLIENT_LOAD_TRAFFIC_KILLABLE_CONNECTION_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/channel.h"

namespace canopy::client {

// Thread-safe.
class KillableConnection {
 public:
  // Connects to HOST:PORT at once, in plaintext. Returns UNAVAILABLE if that fails.
  static absl::StatusOr<std::unique_ptr<KillableConnection>> Open(const std::string& address);
  ~KillableConnection();
  KillableConnection(const KillableConnection&) = delete;
  KillableConnection& operator=(const KillableConnection&) = delete;

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  // Closes the socket without an HTTP/2 GOAWAY. Outstanding calls fail with UNAVAILABLE.
  void Kill();

 private:
  KillableConnection(int fd, std::shared_ptr<grpc::Channel> channel);

  const int fd_;  // a duplicate of gRPC's descriptor, which stays valid after gRPC closes its own
  const std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_KILLABLE_CONNECTION_H_
