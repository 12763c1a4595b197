// What canopy_server can be told at start. The only place that reads flags. Defaults are those of
// the flags.
#ifndef SERVER_SERVER_OPTIONS_H_
#define SERVER_SERVER_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/logging.h"
#include "core/tree/route.h"
#include "server/telemetry/request_log.h"
#include "server/wire/model_message.h"
#include "server/wire/request_validator.h"

namespace canopy::server {

// One model to load.
struct ModelSource {
  std::string name;    // under which clients ask for it
  std::string source;  // a folder, or synthetic:CONFIG.json
};

struct ServerOptions {
  // Models, in order; the first is the default.
  std::vector<ModelSource> models;
  std::string config;           // a backbone config from elsewhere; '' = the folder's own
  std::string device = "auto";  // "auto", "cpu", "cuda" or "cuda:N"
  std::string dtype = "auto";   // "auto", "float32", "bfloat16" or "float16"
  // Serves last-token vectors of folders that pool otherwise; if false, they are refused.
  bool force_last_token_pooling = false;
  // Token ids of a yes/no reranker; -1 = what the folder's reranker.json says.
  int64_t reranker_yes_token = -1;
  int64_t reranker_no_token = -1;
  int32_t threads = 0;           // of the model on a CPU; 0 = one a core
  int64_t max_batch_tokens = 0;  // computed tokens of one forward; 0 = by the device

  // Addresses as HOST:PORT, port 0 = any free one; '' = off.
  std::string listen = "127.0.0.1:50051";
  std::string metrics_listen;
  std::string health_listen;
  std::string admin_listen;
  bool insecure_admin = false;  // the Admin service beyond loopback
  std::string weights_root;     // folder whose folders LoadWeights may load; '' = none
  std::string port_file;        // gets the bound port of `listen`; '' = none
  bool insecure = false;        // plaintext beyond loopback
  bool reflection = false;

  // Of requests that leave the policy open; unset = as --policy=auto says.
  std::optional<Policy> policy;
  std::string route_costs;  // file of measured costs; '' = none
  // Stand in for what a request leaves open.
  Backend backend = Backend::kAuto;
  Packing packing = Packing::kAuto;

  RequestLimits limits;
  int64_t max_request_bytes = int64_t{64} << 20;
  int32_t max_queued_requests = 1'024;              // that wait for the device
  int64_t max_queued_tokens = int64_t{16} << 20;    // that these compute, estimated
  int32_t max_concurrent_streams = 1'024;           // calls of one connection
  int32_t max_stream_in_flight = 64;                // unanswered requests of one ScoreStream
  int32_t encode_threads = 0;                       // 0 = one a core, but 2 to 4
  absl::Duration write_timeout = absl::Minutes(1);  // of a client that does not read; zero = none
  int64_t max_request_memory_bytes = int64_t{8} << 30;  // that unanswered requests may take
  int64_t memory_limit_bytes = 0;              // of the process, resident; 0 = its control group's
  int64_t max_batch_bytes = int64_t{4} << 30;  // on the device, of a forward that requests share
  absl::Duration batch_window = absl::ZeroDuration();       // that such a forward waits to fill
  absl::Duration low_priority_patience = absl::Seconds(2);  // then low runs though others wait
  bool share_across_tenants = false;  // prefixes of different tenants may meet

  LogFormat log_format = LogFormat::kText;
  LogRequests log_requests = LogRequests::kErrors;
  int32_t log_lines_per_second = kDefaultLogLinesPerSecond;  // of one event; 0 = no limit
  absl::Duration drain_timeout = absl::Seconds(30);  // for calls in flight when told to stop

  // What to do instead of serving.
  enum class Action { kServe, kCheckConfig, kVersion, kHelp };
  Action action = Action::kServe;

  // Limits by their flags' names, for GetModel, metrics and the log. `max_batch_tokens` as given.
  LimitMap Limits() const;
};

// Parses and checks a command line without its program name. INVALID_ARGUMENT in one line that
// names the flag, the value and what would be right.
absl::StatusOr<ServerOptions> ParseServerOptions(const std::vector<std::string>& arguments);

// What --help prints.
std::string ServerHelp();

}  // namespace canopy::server

#endif  // SERVER_SERVER_OPTIONS_H_
