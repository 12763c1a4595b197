// Writes gRPC's own errors as lines of Canopy's log: as valid JSON if requested, and with the usual
// limits on lines.
#ifndef SERVER_TELEMETRY_GRPC_LOG_H_
#define SERVER_TELEMETRY_GRPC_LOG_H_

namespace canopy::server {

// Installs the log for errors only. Applies to the whole process.
void InstallGrpcLog();

}  // namespace canopy::server

#endif  // SERVER_TELEMETRY_GRPC_LOG_H_
