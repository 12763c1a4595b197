// What a client is made with.
#ifndef CLIENT_CLIENT_OPTIONS_H_
#define CLIENT_CLIENT_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "base/shared_defaults.h"
#include "grpcpp/security/credentials.h"

namespace canopy::client {

struct ClientOptions {
  // A gRPC target, with its port: `host:port`, `dns:///name:port` (calls go round all its
  // addresses), `ipv4:10.0.0.1:50051,10.0.0.2:50051`, `unix:path`.
  std::string target = kDefaultAddress;
  // Of each call, its retries included. Positive and finite.
  absl::Duration deadline = absl::Seconds(60);
  // The HTTP proxy to go through, as `http://proxy:3128`; absent = as the environment says
  // (client/proxy.h), empty = none.
  absl::optional<std::string> proxy;
  // Of a serialised request: 1 to kMaxRequestBytes. As the server's --max_request_bytes.
  int64_t max_request_bytes = kDefaultMaxRequestBytes;
  // Of one call, the first included: 1 (no retries) to 5 (gRPC's limit).
  int max_attempts = 4;
  // Before the first retry, with jitter; doubled for each further one up to max_backoff. Positive;
  // gRPC waits for at least 1 ms and at most a day.
  absl::Duration initial_backoff = absl::Milliseconds(200);
  absl::Duration max_backoff = absl::Seconds(5);
  // How the server is known and spoken to; null = plaintext.
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  // Connections of this client's own, where clients of one process share theirs otherwise.
  bool own_connections = false;

  // Below protobuf's 2 GiB, with room for what gRPC adds to a buffered call.
  static constexpr int64_t kMaxRequestBytes = int64_t{2047} << 20;

  // INVALID_ARGUMENT naming the option and its range.
  absl::Status Validate() const;
};

}  // namespace canopy::client

#endif  // CLIENT_CLIENT_OPTIONS_H_
