// Opens the gRPC channel of a client, with its balancing, retries, keepalive and message limits.
#ifndef CLIENT_CHANNEL_H_
#define CLIENT_CHANNEL_H_

#include <memory>

#include "client/client_options.h"
#include "grpcpp/channel.h"

namespace canopy::client {

// Returns a channel to options.target that connects with the first call. Precondition: `options`
// are valid.
std::shared_ptr<grpc::Channel> OpenChannel(const ClientOptions& options);

}  // namespace canopy::client

#endif  // CLIENT_CHANNEL_H_
