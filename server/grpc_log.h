// gRPC's own complaints as lines of our log: valid JSON where that is asked for, and so few a
// second that no client can fill a disk with them.
#ifndef SERVER_GRPC_LOG_H_
#define SERVER_GRPC_LOG_H_

namespace canopy::server {

// Errors only, at most ten a second; the next one says how many were left out. Process-wide.
void InstallGrpcLog();

}  // namespace canopy::server

#endif  // SERVER_GRPC_LOG_H_
