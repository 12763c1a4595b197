#include "client/load/load_options.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/flags.h"
#include "client/cli/request_flags.h"
#include "client/load/load_flags.h"
#include "client/load/traffic/load_result.h"
#include "client/proxy.h"

namespace canopy::client {
namespace {

absl::Status Wrong(absl::string_view flag, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, ": ", problem));
}

template <typename Number>
absl::Status CheckRange(absl::string_view flag, Number value, Number least, Number most) {
  // The condition is written so that NaN fails.
  return value >= least && value <= most
             ? absl::OkStatus()
             : Wrong(flag, absl::StrCat(value, " is not in ", least, " .. ", most));
}

absl::Status CheckSpan(absl::string_view flag, absl::Duration value, absl::Duration least,
                       absl::Duration most) {
  return value >= least && value <= most
             ? absl::OkStatus()
             : Wrong(flag,
                     absl::StrCat(absl::FormatDuration(value), " is not in ",
                                  absl::FormatDuration(least), " .. ", absl::FormatDuration(most)));
}

absl::Status CheckRanges() {
  constexpr int kMany = 1 << 20;
  for (const absl::Status& status :
       {CheckRange("connections", absl::GetFlag(FLAGS_connections), 1, 10'000),
        CheckRange("threads", absl::GetFlag(FLAGS_threads), 1, 256),
        CheckRange("max_attempts", absl::GetFlag(FLAGS_max_attempts), 1, 5),
        CheckRange("pool", absl::GetFlag(FLAGS_pool), 1, kMany),
        CheckRange("clients", absl::GetFlag(FLAGS_clients), 1, kMany),
        CheckRange("rate", absl::GetFlag(FLAGS_rate), 1e-3, 1e6),
        CheckRange<int64_t>("max_in_flight", absl::GetFlag(FLAGS_max_in_flight), 1, kMany),
        CheckRange("goal_quantile", absl::GetFlag(FLAGS_goal_quantile), 0.0, 1.0),
        CheckRange("tolerance", absl::GetFlag(FLAGS_tolerance), 0.0, 1e6),
        CheckRange("cancel_share", absl::GetFlag(FLAGS_cancel_share), 0.0, 1.0),
        CheckRange("kill_share", absl::GetFlag(FLAGS_kill_share), 0.0, 1.0),
        CheckRange("cancel_share plus --kill_share",
                   absl::GetFlag(FLAGS_cancel_share) + absl::GetFlag(FLAGS_kill_share), 0.0, 1.0),
        CheckRange("victims", absl::GetFlag(FLAGS_victims), 0, 256),
        CheckSpan("victim_life", absl::GetFlag(FLAGS_victim_life), absl::Milliseconds(1),
                  absl::Hours(24)),
        CheckSpan("warmup", absl::GetFlag(FLAGS_warmup), absl::ZeroDuration(), absl::Hours(24)),
        CheckSpan("duration", absl::GetFlag(FLAGS_duration).value_or(DriverOptions().duration),
                  absl::Milliseconds(1), absl::Hours(24 * 30)),
        CheckSpan("abandon_within", absl::GetFlag(FLAGS_abandon_within), absl::ZeroDuration(),
                  absl::Hours(1))}) {
    if (!status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status ReadKind(LoadOptions* options) {
  const std::string arrivals = absl::GetFlag(FLAGS_arrivals);
  options->trace_file = absl::GetFlag(FLAGS_trace);
  if (!options->trace_file.empty()) {
    options->kind = LoadKind::kTrace;
    return arrivals == "auto" || arrivals == "closed"
               ? absl::OkStatus()
               : Wrong("arrivals", "a trace has instants of its own");
  }
  if (arrivals == "auto") {
    options->kind = absl::GetFlag(FLAGS_search) ? LoadKind::kConstant : LoadKind::kClosed;
  } else if (arrivals == "closed") {
    options->kind = LoadKind::kClosed;
  } else if (arrivals == "constant") {
    options->kind = LoadKind::kConstant;
  } else if (arrivals == "poisson") {
    options->kind = LoadKind::kPoisson;
  } else if (arrivals == "step") {
    options->kind = LoadKind::kStep;
  } else {
    return Wrong("arrivals",
                 absl::StrCat("'", arrivals, "' is not one of auto|closed|constant|poisson|step"));
  }
  const std::string steps = absl::GetFlag(FLAGS_steps);
  if (steps.empty() != (options->kind != LoadKind::kStep)) {
    return Wrong("steps", "goes with --arrivals=step, and that with it");
  }
  if (!steps.empty()) {
    absl::StatusOr<std::vector<RateStep>> parsed = ParseRateSteps(steps);
    if (!parsed.ok()) {
      return Wrong("steps", parsed.status().message());
    }
    options->steps = *std::move(parsed);
  }
  return absl::OkStatus();
}

absl::Status ReadSearch(LoadOptions* options) {
  options->search = absl::GetFlag(FLAGS_search);
  options->goal_quantile = absl::GetFlag(FLAGS_goal_quantile);
  const absl::Duration goal = absl::GetFlag(FLAGS_latency_goal);
  options->driver.latency_goal = goal;
  if (goal <= absl::ZeroDuration()) {
    return Wrong("latency_goal", "must be positive");
  }
  if (options->search && goal == absl::InfiniteDuration()) {
    return Wrong("search", "needs a goal, as --latency_goal=50ms");
  }
  if (options->search && options->kind != LoadKind::kConstant &&
      options->kind != LoadKind::kPoisson) {
    return Wrong("search",
                 "has rates of its own: leave out --trace, and --arrivals or give "
                 "--arrivals=constant or poisson");
  }
  return absl::OkStatus();
}

absl::Status ReadConnection(DriverOptions* driver) {
  absl::StatusOr<std::vector<Target>> targets = ParseTargets(absl::GetFlag(FLAGS_targets));
  if (!targets.ok()) {
    return Wrong("targets", targets.status().message());
  }
  driver->targets = *std::move(targets);
  driver->client = OptionsFromFlags();
  driver->client.max_attempts = absl::GetFlag(FLAGS_max_attempts);
  const TlsFiles files = {absl::GetFlag(FLAGS_tls_ca), absl::GetFlag(FLAGS_tls_cert),
                          absl::GetFlag(FLAGS_tls_key)};
  if (absl::GetFlag(FLAGS_tls)) {
    absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> credentials = TlsCredentials(files);
    if (!credentials.ok()) {
      return Wrong("tls", credentials.status().message());
    }
    driver->client.credentials = *std::move(credentials);
  } else if (!(files.ca + files.certificate + files.key).empty()) {
    return Wrong("tls", "files are given, but not --tls");
  }
  if (const std::string path = absl::GetFlag(FLAGS_token_file); !path.empty()) {
    absl::StatusOr<std::string> token = ReadToken(path);
    if (!token.ok()) {
      return Wrong("token_file", token.status().message());
    }
    driver->token = *std::move(token);
  }
  for (const Target& target : driver->targets) {
    ClientOptions client = driver->client;
    client.target = target.address;
    if (absl::Status status = client.Validate(); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status ReadDriver(LoadOptions* options) {
  DriverOptions& driver = options->driver;
  if (absl::Status status = ReadConnection(&driver); !status.ok()) {
    return status;
  }
  const std::string rpc = absl::GetFlag(FLAGS_rpc);
  if (rpc != "score" && rpc != "stream") {
    return Wrong("rpc", absl::StrCat("'", rpc, "' is not one of score|stream"));
  }
  driver.rpc = rpc == "stream" ? LoadRpc::kStream : LoadRpc::kScore;
  driver.connections = absl::GetFlag(FLAGS_connections);
  driver.completion_threads = absl::GetFlag(FLAGS_threads);
  driver.clients = absl::GetFlag(FLAGS_clients);
  driver.in_order = options->kind == LoadKind::kTrace;
  driver.max_in_flight = absl::GetFlag(FLAGS_max_in_flight);
  driver.max_requests = absl::GetFlag(FLAGS_requests);
  driver.verify = absl::GetFlag(FLAGS_verify);
  driver.tolerance = absl::GetFlag(FLAGS_tolerance);
  driver.cancel_share = absl::GetFlag(FLAGS_cancel_share);
  driver.kill_share = absl::GetFlag(FLAGS_kill_share);
  driver.abandon_within = absl::GetFlag(FLAGS_abandon_within);
  driver.seed = absl::GetFlag(FLAGS_seed);
  driver.warmup = absl::GetFlag(FLAGS_warmup);
  driver.duration =
      absl::GetFlag(FLAGS_duration)
          .value_or(driver.max_requests > 0 ? absl::InfiniteDuration() : DriverOptions().duration);
  if (options->kind == LoadKind::kTrace || options->kind == LoadKind::kStep) {
    // These arrivals end by themselves, and all of them count.
    driver.warmup = absl::ZeroDuration();
    driver.duration = absl::InfiniteDuration();
  }
  if (driver.kill_share > 0 && driver.client.credentials != nullptr) {
    return Wrong("kill_share", "connections are cut in plaintext only");
  }
  for (const Target& target : driver.targets) {
    const auto proxy = FindProxy(target.address, driver.client.proxy);
    if (driver.kill_share > 0 && proxy.ok() && proxy->has_value()) {
      return Wrong("kill_share",
                   absl::StrCat("connections that are cut go direct, and not ", ToString(**proxy)));
    }
  }
  return absl::OkStatus();
}

// Returns the rate in each of up to kMaxIntervals equally long parts of a trace. A part is at least
// a second long.
std::vector<RateStep> BinnedRates(const std::vector<absl::Duration>& trace) {
  const absl::Duration total = trace.empty() ? absl::ZeroDuration() : trace.back();
  if (total <= absl::ZeroDuration()) {
    return {};
  }
  const auto bins = static_cast<size_t>(
      std::clamp(absl::ToDoubleSeconds(total), 1.0, static_cast<double>(kMaxIntervals)));
  std::vector<RateStep> steps(bins, {0, total / static_cast<double>(bins)});
  for (const absl::Duration at : trace) {
    const auto bin = static_cast<size_t>(absl::FDivDuration(at, steps[0].duration));
    steps[std::min(bin, bins - 1)].rate += 1 / absl::ToDoubleSeconds(steps[0].duration);
  }
  return steps;
}

}  // namespace

absl::StatusOr<LoadOptions> LoadOptionsFromFlags() {
  LoadOptions options;
  options.rate = absl::GetFlag(FLAGS_rate);
  absl::Status status = CheckRanges();
  for (absl::Status (*read)(LoadOptions*) : {ReadKind, ReadDriver, ReadSearch}) {
    if (status.ok()) {
      status = read(&options);
    }
  }
  if (!status.ok()) {
    return status;
  }
  absl::StatusOr<std::vector<WeightedShape>> mix = ParseMix(absl::GetFlag(FLAGS_shapes));
  if (!mix.ok()) {
    return Wrong("shapes", mix.status().message());
  }
  options.mix = *std::move(mix);
  absl::StatusOr<std::vector<Threshold>> thresholds =
      ParseThresholds(absl::GetFlag(FLAGS_thresholds));
  if (!thresholds.ok()) {
    return Wrong("thresholds", thresholds.status().message());
  }
  options.thresholds = *std::move(thresholds);
  options.victims = absl::GetFlag(FLAGS_victims);
  options.victim_life = absl::GetFlag(FLAGS_victim_life);
  options.pool.requests_per_shape = absl::GetFlag(FLAGS_pool);
  options.pool.seed = options.driver.seed;
  status = FillFromFlags(&options.pool.head);
  if (!status.ok()) {
    return status;
  }
  return options;
}

std::shared_ptr<Arrivals> MakeArrivals(const LoadOptions& options, double rate,
                                       const std::vector<absl::Duration>& trace) {
  switch (options.kind) {
    case LoadKind::kClosed:
      return nullptr;
    case LoadKind::kConstant:
      return ConstantArrivals(rate);
    case LoadKind::kPoisson:
      return PoissonArrivals(rate, options.driver.seed);
    case LoadKind::kStep:
      return StepArrivals(options.steps);
    case LoadKind::kTrace:
      return TraceArrivals(trace);
  }
  return nullptr;
}

std::vector<RateStep> OfferedRates(const LoadOptions& options, double rate,
                                   const std::vector<absl::Duration>& trace) {
  switch (options.kind) {
    case LoadKind::kClosed:
      return {};
    case LoadKind::kConstant:
    case LoadKind::kPoisson:
      return {{rate, options.driver.warmup + options.driver.duration}};
    case LoadKind::kStep:
      return options.steps;
    case LoadKind::kTrace:
      return BinnedRates(trace);
  }
  return {};
}

std::string Describe(const LoadOptions& options) {
  const auto shape = [](std::string* out, const WeightedShape& weighted) {
    absl::StrAppend(out, weighted.shape.name);
    if (weighted.weight != 1) {
      absl::StrAppend(out, "=", weighted.weight);
    }
  };
  const std::string mix =
      absl::StrCat(options.driver.rpc == LoadRpc::kStream ? " on streams; " : "; ",
                   absl::StrJoin(options.mix, ",", shape));
  switch (options.kind) {
    case LoadKind::kClosed:
      return absl::StrCat("closed loop, ", options.driver.clients, " clients", mix);
    case LoadKind::kConstant:
      return absl::StrCat("open loop, constant, ", options.rate, " requests a second", mix);
    case LoadKind::kPoisson:
      return absl::StrCat("open loop, Poisson, ", options.rate, " requests a second", mix);
    case LoadKind::kStep:
      return absl::StrCat("open loop, ", options.steps.size(), " steps, ",
                          absl::FormatDuration(TotalDuration(options.steps)), mix);
    case LoadKind::kTrace:
      return absl::StrCat("open loop, trace ", options.trace_file);
  }
  return "";
}

}  // namespace canopy::client
