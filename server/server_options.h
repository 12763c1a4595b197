// The options of canopy_server: those of its parts, and those of the process. Each flag is bound to
// one field here, and its default is the field's.
#ifndef SERVER_SERVER_OPTIONS_H_
#define SERVER_SERVER_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/logging.h"
#include "base/shared_defaults.h"
#include "core/engine/engine.h"
#include "core/engine/model_options.h"
#include "server/rpc/call_options.h"
#include "server/wire/model_message.h"

namespace canopy::server {

struct ServerOptions {
  // Models, in order; the first is the default.
  std::vector<ModelSource> models;
  ModelOptions model;
  // Two fields are not read, because the engine gets them from elsewhere:
  // scheduler.max_batch_tokens from `model` and the device, max_mask_bytes from `calls`.
  Engine::Options engine;
  CallOptions calls;
  ConnectionLimits connections;
  LogOptions log;

  // Addresses as HOST:PORT, port 0 = any free one; '' = off.
  std::string listen = kDefaultAddress;
  std::string metrics_listen;
  std::string health_listen;
  std::string admin_listen;
  bool insecure = false;        // allows plaintext on `listen` beyond loopback
  bool insecure_admin = false;  // allows the Admin service beyond loopback
  bool reflection = false;      // answers gRPC server reflection on `listen`
  std::string weights_root;     // folder whose folders LoadWeights may load; '' = none
  std::string port_file;        // gets the bound port of `listen`; '' = none
  absl::Duration drain_timeout = absl::Seconds(30);  // for calls in flight when told to stop

  // What to do instead of serving.
  enum class Action { kServe, kCheckConfig, kVersion, kHelp };
  Action action = Action::kServe;

  // Limits by their flags' names, for GetModel, metrics and the log. max_batch_tokens is that of
  // `model`.
  LimitMap Limits() const;
};

// Parses and checks a command line without its program name. INVALID_ARGUMENT in one line that
// names the flag, the value and what would be right.
absl::StatusOr<ServerOptions> ParseServerOptions(const std::vector<std::string>& arguments);

// What --help prints.
std::string ServerHelp();

}  // namespace canopy::server

#endif  // SERVER_SERVER_OPTIONS_H_
