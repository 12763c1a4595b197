#include "server/grpc_log.h"

#include "core/base/logging.h"
#include "grpc/support/log.h"

namespace canopy::server {
namespace {

void WriteLine(gpr_log_func_args* args) {
  if (args->severity == GPR_LOG_SEVERITY_ERROR) {
    LogError("grpc", {{"message", args->message}});
  }
}

}  // namespace

void InstallGrpcLog() { gpr_set_log_function(WriteLine); }

}  // namespace canopy::server
