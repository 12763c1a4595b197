// Keeps server reflection off.
//
// Linking gRPC's reflection library adds reflection to every server that the process builds, so
// that each listener would describe itself to any client.
#ifndef SERVER_RPC_REFLECTION_GUARD_H_
#define SERVER_RPC_REFLECTION_GUARD_H_

#include <memory>

#include "grpcpp/impl/server_builder_option.h"

namespace canopy::server {

// Returns a builder option that removes reflection from the server if the library is linked.
std::unique_ptr<grpc::ServerBuilderOption> WithoutReflection();

}  // namespace canopy::server

#endif  // SERVER_RPC_REFLECTION_GUARD_H_
