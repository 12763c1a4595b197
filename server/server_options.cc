#include "server/server_options.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/address.h"
#include "base/status_macros.h"
#include "server/flag_parser.h"
#include "server/model_source.h"
#include "server/option_flags.h"

namespace canopy::server {
namespace {

// The options of a command line, and values from which some of them are computed.
struct CommandLine {
  ServerOptions options;
  std::vector<std::string> models;
  bool check_config = false;
  bool version = false;
  bool help = false;
};

absl::Status CheckModels(CommandLine* line) {
  CANOPY_ASSIGN_OR_RETURN(line->options.models, ParseModelSources(line->models));
  return absl::OkStatus();
}

absl::Status CheckConfig(const ServerOptions& options) {
  if (!options.model.config.empty() && options.models.size() != 1) {
    return FlagError("config", options.model.config, "usable with more than one --model");
  }
  return absl::OkStatus();
}

absl::Status CheckReranker(const ServerOptions& options) {
  const int64_t yes = options.model.reranker_yes_token;
  const int64_t no = options.model.reranker_no_token;
  if ((yes >= 0) != (no >= 0)) {
    return FlagError("reranker_no_token", absl::StrCat(no),
                     absl::StrCat("usable with --reranker_yes_token=", yes, ": both are needed"));
  }
  if (yes >= 0 && options.models.size() != 1) {
    return FlagError("reranker_yes_token", absl::StrCat(yes), "usable with more than one --model");
  }
  return absl::OkStatus();
}

absl::Status CheckDevice(const std::string& device) {
  int32_t index = 0;
  absl::string_view text = device;
  if (text != "auto" && text != "cpu" && text != "cuda" &&
      !(absl::ConsumePrefix(&text, "cuda:") && absl::SimpleAtoi(text, &index) && index >= 0)) {
    return FlagError("device", device, "one of: auto, cpu, cuda, cuda:N");
  }
  return absl::OkStatus();
}

absl::Status CheckListen(const ServerOptions& options) {
  return options.listen.empty() ? FlagError("listen", "", "HOST:PORT") : absl::OkStatus();
}

absl::Status CheckInsecure(const ServerOptions& options) {
  if (!options.insecure && !IsLoopbackAddress(options.listen)) {
    return FlagError("listen", options.listen,
                     "a loopback address: plaintext beyond it needs --insecure");
  }
  return absl::OkStatus();
}

absl::Status CheckAdmin(const ServerOptions& options) {
  if (options.admin_listen.empty() != options.weights_root.empty()) {
    return options.admin_listen.empty()
               ? FlagError("weights_root", options.weights_root, "usable without --admin_listen")
               : FlagError("admin_listen", options.admin_listen, "usable without --weights_root");
  }
  if (options.admin_listen.empty()) {
    return absl::OkStatus();
  }
  if (!options.insecure_admin && !IsLoopbackAddress(options.admin_listen)) {
    return FlagError("admin_listen", options.admin_listen,
                     "a loopback address: beyond it, it needs --insecure_admin");
  }
  std::error_code ignored;
  if (!std::filesystem::is_directory(options.weights_root, ignored)) {
    return FlagError("weights_root", options.weights_root, "a folder");
  }
  return absl::OkStatus();
}

using Flags = std::vector<OptionFlag>;

// Sizes are below 2^31, because offsets are int32 and gRPC's sizes are int.
constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

Flags ModelFlags(CommandLine* line) {
  ServerOptions* options = &line->options;
  ModelOptions* model = &options->model;
  return {
      Checked(RepeatedFlag(
                  "model", &line->models,
                  "[NAME=]FOLDER: a Hugging Face folder to serve, or synthetic:CONFIG.json for "
                  "seeded random weights. May be repeated; the first is the default model."),
              [line] { return CheckModels(line); }),
      Checked(TextFlag("config", &model->config,
                       "config.json of the backbone, for a folder that has none. Needs exactly one "
                       "--model."),
              [options] { return CheckConfig(*options); }),
      IntegerFlag("reranker_yes_token", &model->reranker_yes_token, {-1, kMaxInt32},
                  "Makes a language model a reranker whose score is the probability of this token "
                  "against --reranker_no_token; -1 = as the folder's reranker.json says. Needs "
                  "exactly one --model."),
      Checked(IntegerFlag("reranker_no_token", &model->reranker_no_token, {-1, kMaxInt32},
                          "See --reranker_yes_token."),
              [options] { return CheckReranker(*options); }),
      Checked(TextFlag("device", &model->device,
                       "auto (cuda:0 when it runs, else cpu), cpu, cuda or cuda:N."),
              [model] { return CheckDevice(model->device); }),
      ChoiceFlag<std::string>("dtype", &model->dtype,
                              {{"auto", "auto"},
                               {"float32", "float32"},
                               {"bfloat16", "bfloat16"},
                               {"float16", "float16"}},
                              "Type of weights and arithmetic: auto (bfloat16 on CUDA, float32 on "
                              "a CPU), float32, bfloat16 or float16."),
      ChoiceFlag<bool>("pooling", &model->force_last_token_pooling,
                       {{"auto", false}, {"last", true}},
                       "How a folder's vectors are pooled: auto (a folder whose modules.json asks "
                       "for more than the last token's vector is refused) or last (its last "
                       "token's vector is served all the same)."),
      IntegerFlag("threads", &model->threads, {0, 4'096},
                  "Threads of the model on a CPU; 0 = one per core."),
  };
}

Flags AddressFlags(ServerOptions* options) {
  return {
      Checked(
          AddressFlag("listen", &options->listen, "HOST:PORT of the gRPC service; port 0 = any."),
          [options] { return CheckListen(*options); }),
      AddressFlag("metrics_listen", &options->metrics_listen,
                  "HOST:PORT of Prometheus metrics over HTTP; '' = off."),
      AddressFlag(
          "health_listen", &options->health_listen,
          "HOST:PORT of an additional plaintext listener with only the health service; '' = off."),
      Checked(SwitchFlag("insecure", &options->insecure,
                         "Allow plaintext on --listen beyond the loopback addresses."),
              [options] { return CheckInsecure(*options); }),
      AddressFlag(
          "admin_listen", &options->admin_listen,
          "HOST:PORT of the Admin service, which changes weights; '' = off. Needs --weights_root."),
      SwitchFlag("insecure_admin", &options->insecure_admin,
                 "Allow --admin_listen beyond the loopback addresses. Everybody who can reach it "
                 "may change the weights."),
      Checked(TextFlag("weights_root", &options->weights_root,
                       "Folder that contains the checkpoint folders for LoadWeights. Needs "
                       "--admin_listen."),
              [options] { return CheckAdmin(*options); }),
      TextFlag("port_file", &options->port_file, "File that receives the bound port of --listen."),
      SwitchFlag("reflection", &options->reflection, "Answer gRPC server reflection on --listen."),
  };
}

FlagChoices<std::optional<Policy>> PolicyChoices() {
  FlagChoices<std::optional<Policy>> choices = {{"auto", std::nullopt}};
  for (const auto& [policy, name] : kPolicies) {
    choices.emplace_back(name, policy);
  }
  return choices;
}

Flags RoutingFlags(ServerOptions* options) {
  return {
      ChoiceFlag<std::optional<Policy>>(
          "policy", &options->model.policy, PolicyChoices(),
          "Policy that chooses the backend for POLICY_DEFAULT: reference (fixed rules), measured "
          "(the least "
          "predicted cost; measures at start) or auto (measured where fused runs, where "
          "--route_costs has costs, or where measuring is forecast to take at most 2 s; else "
          "reference)."),
      TextFlag("route_costs", &options->model.route_costs,
               "File of measured costs: read if it fits device, model and version, else written "
               "after measuring; '' = measure at each start that needs costs."),
      ChoiceFlag<Backend>("backend", &options->engine.default_backend, ChoicesOf(kBackends),
                          "Backend for requests that name neither backend nor policy: auto, dense, "
                          "segmented, path, or fused if it runs."),
      ChoiceFlag<Packing>(
          "packing", &options->engine.default_packing, ChoicesOf(kPackings),
          "Packing for requests that name neither packing nor policy: auto or padded."),
  };
}

Flags RequestFlags(ServerOptions* options) {
  RequestLimits* request = &options->calls.request;
  return {
      Limit(IntegerFlag("max_questions", &request->max_questions, {1, kMaxInt32},
                        "Questions of one request.")),
      Limit(IntegerFlag("max_candidates", &request->max_candidates, {1, kMaxInt32},
                        "Candidates of one question.")),
      Limit(IntegerFlag("max_paths", &request->max_paths, {1, kMaxInt32},
                        "Candidates of all questions of one request.")),
      Limit(IntegerFlag("max_tokens", &request->max_tokens, {1, kMaxInt32},
                        "Tokens of one request as sent: each prefix counts once.")),
      Limit(IntegerFlag("max_mask_bytes", &request->max_mask_bytes, {0, kMaxInt64},
                        "Bytes: the ancestor-mask budget of requests that name none, and the "
                        "largest budget that requests may name.")),
      Limit(IntegerFlag("max_batch_tokens", &options->model.max_batch_tokens, {0, kMaxInt32},
                        "Tokens that one forward computes; 0 = 16,384 on a CPU, 65,536 on CUDA.")),
      Limit(IntegerFlag("max_request_bytes", &options->connections.max_request_bytes,
                        {1, kMaxInt32}, "Bytes of one request message.")),
  };
}

Flags LoadFlags(ServerOptions* options) {
  Scheduler::Options* scheduler = &options->engine.scheduler;
  CallOptions* calls = &options->calls;
  return {
      Limit(IntegerFlag("max_queued_requests", &scheduler->max_queued_requests, {1, kMaxInt32},
                        "Requests that may wait for the device.")),
      Limit(
          IntegerFlag("max_queued_tokens", &scheduler->max_queued_tokens, {1, kMaxInt64},
                      "Computed tokens, as estimated, of all requests that wait for the device.")),
      Limit(IntegerFlag("max_concurrent_streams", &options->connections.max_concurrent_streams,
                        {1, kMaxInt32}, "Calls in flight of one connection.")),
      Limit(IntegerFlag(
          "max_stream_in_flight", &calls->max_stream_in_flight, {1, 65'536},
          "Unanswered requests of one ScoreStream; the next is read when there is room.")),
      Limit(IntegerFlag("encode_threads", &calls->encode_threads, {0, 256},
                        "Threads that encode answers, so that a large answer does not delay small "
                        "ones; 0 = one per core, but 2 to 4.")),
      Limit(DurationFlag<int64_t>("write_timeout_ms", &calls->write_timeout, absl::Milliseconds(1),
                                  {0, 86'400'000},
                                  "Milliseconds that a client may leave an answer unread before "
                                  "its call is cut; 0 = no limit.")),
      Limit(IntegerFlag("max_request_memory_bytes", &calls->max_request_memory_bytes,
                        {1, kMaxInt64},
                        "Bytes: estimated host memory of all requests that are not answered yet.")),
      Limit(IntegerFlag(
          "memory_limit_bytes", &calls->memory_limit_bytes, {0, kMaxInt64},
          "Bytes that the process may have resident: from nine tenths of it on, requests run one "
          "at a time; 0 = the limit of its control group, if there is one.")),
      Limit(
          IntegerFlag("max_batch_bytes", &scheduler->max_batch_bytes, {1, kMaxInt64},
                      "Bytes: estimated device memory of a forward that several requests share.")),
      Limit(DurationFlag<int64_t>("batch_window_us", &scheduler->batch_window,
                                  absl::Microseconds(1), {0, 1'000'000},
                                  "Microseconds that a forward waits for further requests that may "
                                  "share it; 0 = it runs as soon as the device is free.")),
      Limit(DurationFlag<int64_t>(
          "low_priority_patience_ms", &scheduler->low_priority_patience, absl::Milliseconds(1),
          {0, 3'600'000},
          "Milliseconds after which waiting requests of low priority get every second forward.")),
      SwitchFlag("share_across_tenants", &options->engine.share_across_tenants,
                 "Allow requests of different tenants to share one forward. Off by default, "
                 "because the token counts of an answer reveal what was shared."),
  };
}

Flags ProcessFlags(CommandLine* line) {
  ServerOptions* options = &line->options;
  return {
      ChoiceFlag<LogFormat>("log_format", &options->log.format,
                            {{"text", LogFormat::kText}, {"json", LogFormat::kJson}},
                            "Log lines on stderr: text or json."),
      ChoiceFlag<LogRequests>("log_requests", &options->calls.log_requests,
                              {{"none", LogRequests::kNone},
                               {"errors", LogRequests::kErrors},
                               {"all", LogRequests::kAll}},
                              "Answered requests that get a log line: none, errors or all."),
      IntegerFlag("log_lines_per_second", &options->log.lines_per_second, {0, 1'000'000},
                  "Most log lines of one event per second; the next line contains the number of "
                  "lines that were left out; 0 = no limit."),
      DurationFlag<int32_t>(
          "drain_seconds", &options->drain_timeout, absl::Seconds(1), {0, 86'400},
          "Seconds that calls in flight get after SIGTERM or SIGINT before they are cancelled."),
      SwitchFlag("check_config", &line->check_config,
                 "Check the flags, load the models, and exit."),
      SwitchFlag("version", &line->version, "Print the version and exit."),
      SwitchFlag("help", &line->help, "Print this and exit."),
  };
}

// Returns all flags, bound to `line`, in the order of their checks.
Flags AllFlags(CommandLine* line) {
  ServerOptions* options = &line->options;
  Flags all;
  std::array groups = {ModelFlags(line),      AddressFlags(options), RoutingFlags(options),
                       RequestFlags(options), LoadFlags(options),    ProcessFlags(line)};
  for (Flags& flags : groups) {
    std::move(flags.begin(), flags.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace

LimitMap ServerOptions::Limits() const {
  CommandLine line;
  line.options = *this;
  LimitMap limits;
  for (const OptionFlag& flag : AllFlags(&line)) {
    if (flag.is_limit) {
      limits[flag.name] = flag.value();
    }
  }
  return limits;
}

absl::StatusOr<ServerOptions> ParseServerOptions(const std::vector<std::string>& arguments) {
  CommandLine line;
  const Flags flags = AllFlags(&line);
  CANOPY_RETURN_IF_ERROR(ParseFlags(arguments, flags));
  if (line.help || line.version) {
    line.options.action =
        line.help ? ServerOptions::Action::kHelp : ServerOptions::Action::kVersion;
    return line.options;
  }
  for (const OptionFlag& flag : flags) {
    if (flag.check != nullptr) {
      CANOPY_RETURN_IF_ERROR(flag.check());
    }
  }
  if (line.check_config) {
    line.options.action = ServerOptions::Action::kCheckConfig;
  }
  return line.options;
}

std::string ServerHelp() {
  CommandLine line;
  return absl::StrCat(
      "canopy_server: scores candidate token paths over gRPC.\n\n  canopy_server "
      "--model=[NAME=]FOLDER [--model=...] [flags]\n\nEvery flag is --name=value; --flagfile=FILE "
      "reads them from a file, one a line.\n\n",
      FlagsHelp(AllFlags(&line)));
}

}  // namespace canopy::server
