// The options of canopy_server: those of its parts and those of the process. Each flag is bound to
// one field here, which has its default.
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
  // The models, in order; the first is the default.
  std::vector<ModelSource> models;
  ModelOptions model;
  // Two fields are not used, because the engine gets their values from other options:
  // scheduler.max_batch_tokens from `model` and the device, and max_mask_bytes from `calls`.
  Engine::Options engine;
  CallOptions calls;
  ConnectionLimits connections;
  LogOptions log;

  // The addresses of the listeners, as HOST:PORT; port 0 = any free port, '' = off.
  std::string listen = kDefaultAddress;
  std::string metrics_listen;
  std::string health_listen;
  std::string admin_listen;
  bool insecure = false;        // allows plaintext on `listen` beyond loopback
  bool insecure_admin = false;  // allows the Admin service beyond loopback
  bool reflection = false;      // answers gRPC server reflection on `listen`
  std::string weights_root;     // the folder that contains the folders for LoadWeights; '' = none
  std::string port_file;        // the file that receives the bound port of `listen`; '' = none
  // for calls in progress after SIGTERM or SIGINT
  absl::Duration drain_timeout = absl::Seconds(30);

  // The action of the program.
  enum class Action { kServe, kCheckConfig, kVersion, kHelp };
  Action action = Action::kServe;

  // Returns the limits by the names of their flags, for GetModel, metrics and the log.
  // max_batch_tokens is that of `model`.
  LimitMap Limits() const;
};

// Parses and checks a command line without the program's name. Returns INVALID_ARGUMENT in one line
// with the flag, the value and the valid values.
absl::StatusOr<ServerOptions> ParseServerOptions(const std::vector<std::string>& arguments);

// Returns the text of --help.
std::string ServerHelp();

}  // namespace canopy::server

#endif  // SERVER_SERVER_OPTIONS_H_
