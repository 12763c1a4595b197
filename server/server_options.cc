#include "server/server_options.h"

#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/flags/flag.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/address.h"
#include "base/status_macros.h"
#include "server/flag_parser.h"

namespace canopy::server {

// The values of a flag that may be given several times.
struct RepeatedFlag {
  std::vector<std::string> values;
};

bool AbslParseFlag(absl::string_view text, RepeatedFlag* flag, std::string* /*error*/) {
  flag->values = absl::StrSplit(text, kRepeatSeparator, absl::SkipEmpty());
  return true;
}

std::string AbslUnparseFlag(const RepeatedFlag& flag) {
  return absl::StrJoin(flag.values, std::string(1, kRepeatSeparator));
}

}  // namespace canopy::server

using Defaults = canopy::server::ServerOptions;

ABSL_FLAG(
    canopy::server::RepeatedFlag, model, {},
    "[NAME=]FOLDER: a Hugging Face folder to serve, or synthetic:CONFIG.json for seeded random "
    "weights. May be repeated; the first is the default model.");
ABSL_FLAG(std::string, config, "",
          "config.json of the backbone, for a folder that has none. Needs exactly one --model.");
ABSL_FLAG(std::string, device, Defaults().device,
          "auto (cuda:0 when it runs, else cpu), cpu, cuda or cuda:N.");
ABSL_FLAG(std::string, dtype, Defaults().dtype,
          "Type of weights and arithmetic: auto (bfloat16 on CUDA, float32 on a CPU), float32, "
          "bfloat16 or float16.");
ABSL_FLAG(
    std::string, pooling, "auto",
    "How a folder's vectors are pooled: auto (a folder whose modules.json asks for more than the "
    "last token's vector is refused) or last (its last token's vector is served all the same).");
ABSL_FLAG(
    int64_t, reranker_yes_token, -1,
    "Makes a language model a reranker whose score is the probability of this token against "
    "--reranker_no_token; -1 = as the folder's reranker.json says. Needs exactly one --model.");
ABSL_FLAG(int64_t, reranker_no_token, -1, "See --reranker_yes_token.");
ABSL_FLAG(int32_t, threads, 0, "Threads of the model on a CPU; 0 = one a core.");
ABSL_FLAG(std::string, listen, Defaults().listen, "HOST:PORT of the gRPC service; port 0 = any.");
ABSL_FLAG(std::string, metrics_listen, "", "HOST:PORT of Prometheus metrics over HTTP; '' = off.");
ABSL_FLAG(std::string, health_listen, "",
          "HOST:PORT of a further plaintext listener with the health service alone; '' = off.");
ABSL_FLAG(std::string, admin_listen, "",
          "HOST:PORT of the Admin service, which changes weights; '' = off. Needs --weights_root.");
ABSL_FLAG(bool, insecure_admin, false,
          "Allow --admin_listen beyond the loopback addresses: whoever reaches it may change what "
          "is served.");
ABSL_FLAG(std::string, weights_root, "",
          "Folder that holds the checkpoint folders which LoadWeights may name. Needs "
          "--admin_listen.");
ABSL_FLAG(std::string, port_file, "", "File that gets the port of --listen once it is bound.");
ABSL_FLAG(bool, insecure, false, "Allow plaintext on --listen beyond the loopback addresses.");
ABSL_FLAG(bool, reflection, false, "Answer gRPC server reflection on --listen.");
ABSL_FLAG(
    std::string, policy, "auto",
    "Who picks the backend for POLICY_DEFAULT: reference (fixed rules), measured (the least "
    "predicted cost; measures at start) or auto (measured where fused runs, where --route_costs "
    "has costs, or where measuring is forecast to take at most 2 s; else reference).");
ABSL_FLAG(
    std::string, route_costs, "",
    "File of measured costs: read where it fits device, model and version, else written after "
    "measuring; '' measures at each start that needs it.");
ABSL_FLAG(std::string, backend, "auto",
          "Backend for requests that leave backend and policy open: auto, dense, segmented, path, "
          "or fused "
          "where it runs.");
ABSL_FLAG(std::string, packing, "auto",
          "Packing for requests that leave packing and policy open: auto or padded.");
ABSL_FLAG(
    int64_t, max_mask_bytes, Defaults().limits.max_mask_bytes,
    "Bytes: the ancestor-mask budget of requests that name none, and the most they may name.");
ABSL_FLAG(int64_t, max_batch_tokens, 0,
          "Tokens that one forward computes; 0 = 16,384 on a CPU, 65,536 on CUDA.");
ABSL_FLAG(int64_t, max_questions, Defaults().limits.max_questions, "Questions of one request.");
ABSL_FLAG(int64_t, max_candidates, Defaults().limits.max_candidates, "Candidates of one question.");
ABSL_FLAG(int64_t, max_paths, Defaults().limits.max_paths,
          "Candidates of all questions of one request.");
ABSL_FLAG(int64_t, max_tokens, Defaults().limits.max_tokens,
          "Tokens of one request as sent: each prefix counts once.");
ABSL_FLAG(int64_t, max_request_bytes, Defaults().max_request_bytes,
          "Bytes of one request message.");
ABSL_FLAG(int32_t, max_queued_requests, Defaults().max_queued_requests,
          "Requests that may wait for the device.");
ABSL_FLAG(int64_t, max_queued_tokens, Defaults().max_queued_tokens,
          "Computed tokens, as estimated, of all requests that wait for the device.");
ABSL_FLAG(int32_t, max_concurrent_streams, Defaults().max_concurrent_streams,
          "Calls in flight of one connection.");
ABSL_FLAG(int32_t, max_stream_in_flight, Defaults().max_stream_in_flight,
          "Unanswered requests of one ScoreStream; the next is read when there is room.");
ABSL_FLAG(
    int32_t, encode_threads, Defaults().encode_threads,
    "Threads that encode answers, so that a large answer does not hold up small ones; 0 = one "
    "a core, but 2 to 4.");
ABSL_FLAG(int64_t, write_timeout_ms, absl::ToInt64Milliseconds(Defaults().write_timeout),
          "Milliseconds that a client may leave an answer unread before its call is cut; 0 = any "
          "time.");
ABSL_FLAG(int64_t, max_request_memory_bytes, Defaults().max_request_memory_bytes,
          "Bytes: estimated host memory of all requests that are not answered yet.");
ABSL_FLAG(
    int64_t, memory_limit_bytes, 0,
    "Bytes that the process may have resident: from nine tenths of it on, requests run one at "
    "a time; 0 = the limit of its control group, if there is one.");
ABSL_FLAG(int64_t, max_batch_bytes, Defaults().max_batch_bytes,
          "Bytes: estimated device memory of a forward that several requests share.");
ABSL_FLAG(
    int64_t, batch_window_us, absl::ToInt64Microseconds(Defaults().batch_window),
    "Microseconds that a forward which requests may share waits for more of them; 0 = it runs "
    "once the device is free.");
ABSL_FLAG(int64_t, low_priority_patience_ms,
          absl::ToInt64Milliseconds(Defaults().low_priority_patience),
          "Milliseconds that requests of low priority let others go first; then they get every "
          "second forward.");
ABSL_FLAG(bool, share_across_tenants, false,
          "Let equal prefixes of different tenants share computation.");
ABSL_FLAG(std::string, log_format, "text", "Log lines on stderr: text or json.");
ABSL_FLAG(std::string, log_requests, "errors",
          "Answered requests that get a log line: none, errors or all.");
ABSL_FLAG(int32_t, log_lines_per_second, Defaults().log_lines_per_second,
          "Log lines of one event in a second; the next one says how many were left out; 0 = no "
          "limit.");
ABSL_FLAG(int32_t, drain_seconds, absl::ToInt64Seconds(Defaults().drain_timeout),
          "Seconds that calls in flight get after SIGTERM or SIGINT before they are cancelled.");
ABSL_FLAG(bool, check_config, false, "Check the flags, load the models, and exit.");
ABSL_FLAG(bool, version, false, "Print the version and exit.");
ABSL_FLAG(bool, help, false, "Print this and exit.");

namespace canopy::server {
namespace {

constexpr size_t kMaxModelNameBytes = 128;
constexpr int64_t kMaxStreamInFlight = 65'536;
constexpr int64_t kMaxEncodeThreads = 256;
constexpr int64_t kMaxBatchWindowUs = 1'000'000;
constexpr int64_t kMaxPatienceMs = 3'600'000;
constexpr int64_t kMaxWriteTimeoutMs = 86'400'000;

absl::Status FlagError(absl::string_view flag, absl::string_view value, absl::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, ": '", value, "' is not ", wanted));
}

absl::Status CheckRange(absl::string_view flag, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    return FlagError(flag, absl::StrCat(value), absl::StrCat("in ", low, " .. ", high));
  }
  return absl::OkStatus();
}

// The part of `choices` that stands with `value`.
template <typename T>
absl::StatusOr<T> Choose(absl::string_view flag, const std::string& value,
                         const std::vector<std::pair<std::string, T>>& choices) {
  std::vector<std::string> names;
  for (const auto& [name, choice] : choices) {
    if (name == value) {
      return choice;
    }
    names.push_back(name);
  }
  return FlagError(flag, value, absl::StrCat("one of: ", absl::StrJoin(names, ", ")));
}

absl::Status CheckAddress(absl::string_view flag, const std::string& address) {
  if (!address.empty() && !SplitAddress(address).has_value()) {
    return FlagError(flag, address, "HOST:PORT");
  }
  return absl::OkStatus();
}

// The last part of a path, without .json.
std::string DefaultModelName(absl::string_view source) {
  absl::ConsumePrefix(&source, "synthetic:");
  while (absl::ConsumeSuffix(&source, "/")) {
  }
  return std::string(absl::StripSuffix(source.substr(source.rfind('/') + 1), ".json"));
}

bool IsModelName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxModelNameBytes && absl::c_all_of(name, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  });
}

absl::StatusOr<ModelSource> ParseModel(const std::string& text) {
  ModelSource model;
  const size_t equals = text.find('=');
  if (equals != std::string::npos && text.find('/') > equals) {
    model.name = text.substr(0, equals);
    model.source = text.substr(equals + 1);
  } else {
    model.source = text;
    model.name = DefaultModelName(text);
  }
  if (model.source.empty() || !IsModelName(model.name)) {
    return FlagError("model", text,
                     "[NAME=]FOLDER with a NAME of letters, digits, '.', '_' and '-'");
  }
  return model;
}

absl::Status ReadReranker(ServerOptions* options) {
  constexpr int64_t kMaxToken = std::numeric_limits<int32_t>::max();
  options->reranker_yes_token = absl::GetFlag(FLAGS_reranker_yes_token);
  options->reranker_no_token = absl::GetFlag(FLAGS_reranker_no_token);
  CANOPY_RETURN_IF_ERROR(
      CheckRange("reranker_yes_token", options->reranker_yes_token, -1, kMaxToken));
  CANOPY_RETURN_IF_ERROR(
      CheckRange("reranker_no_token", options->reranker_no_token, -1, kMaxToken));
  const bool has_yes = options->reranker_yes_token >= 0;
  if (has_yes != (options->reranker_no_token >= 0)) {
    return FlagError("reranker_no_token", absl::StrCat(options->reranker_no_token),
                     absl::StrCat("usable with --reranker_yes_token=", options->reranker_yes_token,
                                  ": both are needed"));
  }
  if (has_yes && options->models.size() != 1) {
    return FlagError("reranker_yes_token", absl::StrCat(options->reranker_yes_token),
                     "usable with more than one --model");
  }
  return absl::OkStatus();
}

absl::Status ReadModels(ServerOptions* options) {
  absl::flat_hash_set<std::string> names;
  for (const std::string& text : absl::GetFlag(FLAGS_model).values) {
    CANOPY_ASSIGN_OR_RETURN(ModelSource model, ParseModel(text));
    if (!names.insert(model.name).second) {
      return FlagError("model", text,
                       absl::StrCat("unique: another is named '", model.name, "' too"));
    }
    options->models.push_back(std::move(model));
  }
  if (options->models.empty()) {
    return absl::InvalidArgumentError("--model: at least one is needed");
  }
  options->config = absl::GetFlag(FLAGS_config);
  if (!options->config.empty() && options->models.size() != 1) {
    return FlagError("config", options->config, "usable with more than one --model");
  }
  CANOPY_RETURN_IF_ERROR(ReadReranker(options));
  options->device = absl::GetFlag(FLAGS_device);
  int32_t index = 0;
  absl::string_view device = options->device;
  if (device != "auto" && device != "cpu" && device != "cuda" &&
      !(absl::ConsumePrefix(&device, "cuda:") && absl::SimpleAtoi(device, &index) && index >= 0)) {
    return FlagError("device", options->device, "one of: auto, cpu, cuda, cuda:N");
  }
  CANOPY_ASSIGN_OR_RETURN(options->dtype, Choose<std::string>("dtype", absl::GetFlag(FLAGS_dtype),
                                                              {{"auto", "auto"},
                                                               {"float32", "float32"},
                                                               {"bfloat16", "bfloat16"},
                                                               {"float16", "float16"}}));
  CANOPY_ASSIGN_OR_RETURN(
      options->force_last_token_pooling,
      Choose<bool>("pooling", absl::GetFlag(FLAGS_pooling), {{"auto", false}, {"last", true}}));
  options->threads = absl::GetFlag(FLAGS_threads);
  return CheckRange("threads", options->threads, 0, 4'096);
}

absl::Status ReadAdmin(ServerOptions* options) {
  options->admin_listen = absl::GetFlag(FLAGS_admin_listen);
  options->insecure_admin = absl::GetFlag(FLAGS_insecure_admin);
  options->weights_root = absl::GetFlag(FLAGS_weights_root);
  CANOPY_RETURN_IF_ERROR(CheckAddress("admin_listen", options->admin_listen));
  if (options->admin_listen.empty() != options->weights_root.empty()) {
    return options->admin_listen.empty()
               ? FlagError("weights_root", options->weights_root, "usable without --admin_listen")
               : FlagError("admin_listen", options->admin_listen, "usable without --weights_root");
  }
  if (options->admin_listen.empty()) {
    return absl::OkStatus();
  }
  if (!options->insecure_admin && !IsLoopbackAddress(options->admin_listen)) {
    return FlagError("admin_listen", options->admin_listen,
                     "a loopback address: beyond it, it needs --insecure_admin");
  }
  std::error_code ignored;
  if (!std::filesystem::is_directory(options->weights_root, ignored)) {
    return FlagError("weights_root", options->weights_root, "a folder");
  }
  return absl::OkStatus();
}

absl::Status ReadAddresses(ServerOptions* options) {
  options->listen = absl::GetFlag(FLAGS_listen);
  options->metrics_listen = absl::GetFlag(FLAGS_metrics_listen);
  options->health_listen = absl::GetFlag(FLAGS_health_listen);
  options->port_file = absl::GetFlag(FLAGS_port_file);
  options->insecure = absl::GetFlag(FLAGS_insecure);
  options->reflection = absl::GetFlag(FLAGS_reflection);
  if (options->listen.empty()) {
    return FlagError("listen", "", "HOST:PORT");
  }
  CANOPY_RETURN_IF_ERROR(CheckAddress("listen", options->listen));
  CANOPY_RETURN_IF_ERROR(CheckAddress("metrics_listen", options->metrics_listen));
  CANOPY_RETURN_IF_ERROR(CheckAddress("health_listen", options->health_listen));
  if (!options->insecure && !IsLoopbackAddress(options->listen)) {
    return FlagError("listen", options->listen,
                     "a loopback address: plaintext beyond it needs --insecure");
  }
  return ReadAdmin(options);
}

absl::Status ReadRouting(ServerOptions* options) {
  CANOPY_ASSIGN_OR_RETURN(options->policy,
                          Choose<std::optional<Policy>>("policy", absl::GetFlag(FLAGS_policy),
                                                        {{"auto", std::nullopt},
                                                         {"reference", Policy::kReference},
                                                         {"measured", Policy::kMeasured}}));
  options->route_costs = absl::GetFlag(FLAGS_route_costs);
  CANOPY_ASSIGN_OR_RETURN(options->backend, Choose<Backend>("backend", absl::GetFlag(FLAGS_backend),
                                                            {{"auto", Backend::kAuto},
                                                             {"dense", Backend::kDense},
                                                             {"segmented", Backend::kSegmented},
                                                             {"path", Backend::kPath},
                                                             {"fused", Backend::kFused}}));
  CANOPY_ASSIGN_OR_RETURN(
      options->packing, Choose<Packing>("packing", absl::GetFlag(FLAGS_packing),
                                        {{"auto", Packing::kAuto}, {"padded", Packing::kPadded}}));
  return absl::OkStatus();
}

// Sizes below 2^31 stay so in every product's factor: offsets are int32, gRPC's sizes are int.
absl::Status ReadLimits(ServerOptions* options) {
  constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
  constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
  RequestLimits& limits = options->limits;
  limits.max_questions = absl::GetFlag(FLAGS_max_questions);
  limits.max_candidates = absl::GetFlag(FLAGS_max_candidates);
  limits.max_paths = absl::GetFlag(FLAGS_max_paths);
  limits.max_tokens = absl::GetFlag(FLAGS_max_tokens);
  limits.max_mask_bytes = absl::GetFlag(FLAGS_max_mask_bytes);
  options->max_batch_tokens = absl::GetFlag(FLAGS_max_batch_tokens);
  options->max_request_bytes = absl::GetFlag(FLAGS_max_request_bytes);
  options->max_queued_requests = absl::GetFlag(FLAGS_max_queued_requests);
  options->max_queued_tokens = absl::GetFlag(FLAGS_max_queued_tokens);
  options->max_concurrent_streams = absl::GetFlag(FLAGS_max_concurrent_streams);
  options->max_stream_in_flight = absl::GetFlag(FLAGS_max_stream_in_flight);
  options->encode_threads = absl::GetFlag(FLAGS_encode_threads);
  const int64_t write_timeout_ms = absl::GetFlag(FLAGS_write_timeout_ms);
  options->write_timeout = absl::Milliseconds(write_timeout_ms);
  options->max_request_memory_bytes = absl::GetFlag(FLAGS_max_request_memory_bytes);
  options->memory_limit_bytes = absl::GetFlag(FLAGS_memory_limit_bytes);
  options->max_batch_bytes = absl::GetFlag(FLAGS_max_batch_bytes);
  const int64_t batch_window_us = absl::GetFlag(FLAGS_batch_window_us);
  const int64_t low_priority_patience_ms = absl::GetFlag(FLAGS_low_priority_patience_ms);
  options->batch_window = absl::Microseconds(batch_window_us);
  options->low_priority_patience = absl::Milliseconds(low_priority_patience_ms);
  options->share_across_tenants = absl::GetFlag(FLAGS_share_across_tenants);
  const struct {
    absl::string_view flag;
    int64_t value;
    int64_t low;
    int64_t high;
  } ranges[] = {
      {"max_questions", limits.max_questions, 1, kMaxInt32},
      {"max_candidates", limits.max_candidates, 1, kMaxInt32},
      {"max_paths", limits.max_paths, 1, kMaxInt32},
      {"max_tokens", limits.max_tokens, 1, kMaxInt32},
      {"max_mask_bytes", limits.max_mask_bytes, 0, kMaxInt64},
      {"max_batch_tokens", options->max_batch_tokens, 0, kMaxInt32},
      {"max_request_bytes", options->max_request_bytes, 1, kMaxInt32},
      {"max_queued_requests", options->max_queued_requests, 1, kMaxInt32},
      {"max_queued_tokens", options->max_queued_tokens, 1, kMaxInt64},
      {"max_concurrent_streams", options->max_concurrent_streams, 1, kMaxInt32},
      {"max_stream_in_flight", options->max_stream_in_flight, 1, kMaxStreamInFlight},
      {"encode_threads", options->encode_threads, 0, kMaxEncodeThreads},
      {"write_timeout_ms", write_timeout_ms, 0, kMaxWriteTimeoutMs},
      {"max_request_memory_bytes", options->max_request_memory_bytes, 1, kMaxInt64},
      {"memory_limit_bytes", options->memory_limit_bytes, 0, kMaxInt64},
      {"max_batch_bytes", options->max_batch_bytes, 1, kMaxInt64},
      {"batch_window_us", batch_window_us, 0, kMaxBatchWindowUs},
      {"low_priority_patience_ms", low_priority_patience_ms, 0, kMaxPatienceMs},
  };
  for (const auto& range : ranges) {
    CANOPY_RETURN_IF_ERROR(CheckRange(range.flag, range.value, range.low, range.high));
  }
  return absl::OkStatus();
}

absl::Status ReadProcess(ServerOptions* options) {
  CANOPY_ASSIGN_OR_RETURN(
      options->log_format,
      Choose<LogFormat>("log_format", absl::GetFlag(FLAGS_log_format),
                        {{"text", LogFormat::kText}, {"json", LogFormat::kJson}}));
  CANOPY_ASSIGN_OR_RETURN(options->log_requests,
                          Choose<LogRequests>("log_requests", absl::GetFlag(FLAGS_log_requests),
                                              {{"none", LogRequests::kNone},
                                               {"errors", LogRequests::kErrors},
                                               {"all", LogRequests::kAll}}));
  options->log_lines_per_second = absl::GetFlag(FLAGS_log_lines_per_second);
  CANOPY_RETURN_IF_ERROR(
      CheckRange("log_lines_per_second", options->log_lines_per_second, 0, 1'000'000));
  const int32_t drain_seconds = absl::GetFlag(FLAGS_drain_seconds);
  CANOPY_RETURN_IF_ERROR(CheckRange("drain_seconds", drain_seconds, 0, 86'400));
  options->drain_timeout = absl::Seconds(drain_seconds);
  if (absl::GetFlag(FLAGS_check_config)) {
    options->action = ServerOptions::Action::kCheckConfig;
  }
  return absl::OkStatus();
}

}  // namespace

LimitMap ServerOptions::Limits() const {
  return {{"max_questions", limits.max_questions},
          {"max_candidates", limits.max_candidates},
          {"max_paths", limits.max_paths},
          {"max_tokens", limits.max_tokens},
          {"max_mask_bytes", limits.max_mask_bytes},
          {"max_batch_tokens", max_batch_tokens},
          {"max_request_bytes", max_request_bytes},
          {"max_queued_requests", max_queued_requests},
          {"max_queued_tokens", max_queued_tokens},
          {"max_concurrent_streams", max_concurrent_streams},
          {"max_stream_in_flight", max_stream_in_flight},
          {"write_timeout_ms", absl::ToInt64Milliseconds(write_timeout)},
          {"max_request_memory_bytes", max_request_memory_bytes},
          {"memory_limit_bytes", memory_limit_bytes},
          {"max_batch_bytes", max_batch_bytes},
          {"batch_window_us", absl::ToInt64Microseconds(batch_window)},
          {"low_priority_patience_ms", absl::ToInt64Milliseconds(low_priority_patience)}};
}

absl::StatusOr<ServerOptions> ParseServerOptions(const std::vector<std::string>& arguments) {
  CANOPY_RETURN_IF_ERROR(ParseFlags(arguments, {"model"}));
  ServerOptions options;
  if (absl::GetFlag(FLAGS_help)) {
    options.action = ServerOptions::Action::kHelp;
    return options;
  }
  if (absl::GetFlag(FLAGS_version)) {
    options.action = ServerOptions::Action::kVersion;
    return options;
  }
  CANOPY_RETURN_IF_ERROR(ReadModels(&options));
  CANOPY_RETURN_IF_ERROR(ReadAddresses(&options));
  CANOPY_RETURN_IF_ERROR(ReadRouting(&options));
  CANOPY_RETURN_IF_ERROR(ReadLimits(&options));
  CANOPY_RETURN_IF_ERROR(ReadProcess(&options));
  return options;
}

std::string ServerHelp() {
  return absl::StrCat(
      "canopy_server: scores candidate token paths over gRPC.\n\n"
      "  canopy_server --model=[NAME=]FOLDER [--model=...] [flags]\n\n"
      "Every flag is --name=value; --flagfile=FILE reads them from a file, one a line.\n\n",
      FlagsHelp("server/server_options.cc"));
}

}  // namespace canopy::server
