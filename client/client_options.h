// The options of a client.
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
  // The gRPC target, with its port: `host:port`, `dns:///name:port` (calls are distributed over all
  // its addresses), `ipv4:10.0.0.1:50051,10.0.0.2:50051`, `unix:path`.
  std::string target = kDefaultAddress;
  // The deadline of each call, including its retries. Positive and finite.
  absl::Duration deadline = absl::Seconds(60);
  // The HTTP proxy, as `http://proxy:3128`; absent = as in the environment (client/proxy.h), empty
  // = none.
  absl::optional<std::string> proxy;
  // The most bytes of a serialised request: 1 to kMaxRequestBytes. The default is that of the
  // server's --max_request_bytes.
  int64_t max_request_bytes = kDefaultMaxRequestBytes;
  // The most attempts of one call, including the first: 1 (no retries) to 5 (gRPC's limit).
  int max_attempts = 4;
  // The backoff before the first retry, with jitter. It doubles for each further retry, up to
  // max_backoff. Positive; gRPC waits for at least 1 ms and at most a day.
  absl::Duration initial_backoff = absl::Milliseconds(200);
  absl::Duration max_backoff = absl::Seconds(5);
  // The credentials of the server and the client; null = plaintext.
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  // If true, the client opens its own connections. Otherwise the clients of a process share theirs.
  bool own_connections = false;

  // Below protobuf's 2 GiB, with room for gRPC's additions to a buffered call.
  static constexpr int64_t kMaxRequestBytes = int64_t{2047} << 20;

  // Returns INVALID_ARGUMENT with the option and its range.
  absl::Status Validate() const;
};

}  // namespace canopy::client

#endif  // CLIENT_CLIENT_OPTIONS_H_
