// Opens the gRPC channel of a client: balancing, retries, keepalive and message limits.
#ifndef CLIENT_CHANNEL_H_
#define CLIENT_CHANNEL_H_

#include <memory>

#include "client/client_options.h"
#include "grpcpp/channel.h"

namespace canopy::client {

// A channel to options.target that connects with the first call. `options` must be
// valid.
std::shared_ptr<grpc::Channel> OpenChannel(const ClientOptions& options);

}  // namespace canopy::client

#endif  // CLIENT_CHANNEL_H_
