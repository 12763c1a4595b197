// gRPC's own complaints as lines of our log: valid JSON where that is asked for, and limited as all
// lines are.
#ifndef SERVER_TELEMETRY_GRPC_LOG_H_
#define SERVER_TELEMETRY_GRPC_LOG_H_

namespace canopy::server {

// Errors only. Process-wide.
void InstallGrpcLog();

}  // namespace canopy::server

#endif  // SERVER_TELEMETRY_GRPC_LOG_H_
