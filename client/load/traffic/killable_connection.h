// A connection that is cut in the middle of a call, as when a client's process is killed.
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
  // Connects to HOST:PORT at once, in plaintext. UNAVAILABLE when it cannot.
  static absl::StatusOr<std::unique_ptr<KillableConnection>> Open(const std::string& address);
  ~KillableConnection();
  KillableConnection(const KillableConnection&) = delete;
  KillableConnection& operator=(const KillableConnection&) = delete;

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  // Cuts it without a word to the server's HTTP/2: calls on it end with UNAVAILABLE.
  void Kill();

 private:
  KillableConnection(int fd, std::shared_ptr<grpc::Channel> channel);

  const int fd_;  // Our own descriptor of gRPC's socket, so that it cannot be another's by then.
  const std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_KILLABLE_CONNECTION_H_
