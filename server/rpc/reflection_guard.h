// Keeps server reflection off.
//
// Linking gRPC's reflection library adds it to every server that the process builds, so that each
// listener would describe itself to whoever asks.
#ifndef SERVER_RPC_REFLECTION_GUARD_H_
#define SERVER_RPC_REFLECTION_GUARD_H_

#include <memory>

#include "grpcpp/impl/server_builder_option.h"

namespace canopy::server {

// A builder option that takes reflection out of the server being built, where it is linked at all.
std::unique_ptr<grpc::ServerBuilderOption> WithoutReflection();

}  // namespace canopy::server

#endif  // SERVER_RPC_REFLECTION_GUARD_H_
