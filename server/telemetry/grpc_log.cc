#include "server/telemetry/grpc_log.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/logging.h"
#include "grpc/support/log.h"

namespace canopy::server {
namespace {

absl::string_view FileName(absl::string_view path) { return path.substr(path.rfind('/') + 1); }

void WriteLine(gpr_log_func_args* args) {
  if (args->severity == GPR_LOG_SEVERITY_ERROR) {
    // The message may quote data of any length from a peer. The position in gRPC's source
    // identifies a message that was cut.
    LogError("grpc", {{"message", BoundedForLog(args->message)},
                      {"source", absl::StrCat(FileName(args->file), ":", args->line)}});
  }
}

}  // namespace

void InstallGrpcLog() { gpr_set_log_function(WriteLine); }

}  // namespace canopy::server
