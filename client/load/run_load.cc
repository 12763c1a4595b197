#include "client/load/run_load.h"

#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file_text.h"
#include "base/whole_file.h"
#include "client/cli/flag_reader.h"
#include "client/cli/terminal_text.h"
#include "client/client.h"
#include "client/connection_hint.h"
#include "client/load/load_flags.h"
#include "client/load/load_options.h"
#include "client/load/rate_search.h"
#include "client/load/report/report.h"
#include "client/load/traffic/expected_answers.h"
#include "client/load/traffic/killed_clients.h"
#include "client/load/traffic/load_driver.h"

namespace canopy::client {
namespace {

constexpr absl::Duration kProgressInterval = absl::Seconds(1);
// A rate meets the goal only if the server also answers: limits on refusals, and on calls that fall
// behind.
constexpr double kMaxErrorShare = 0.001;
constexpr double kMinShareOfRate = 0.95;

// Returns a line such as ` 12s  1,234 requests/s  p50 1.2 ms  p99 4.5 ms  in flight 64  refused 0`.
std::string ProgressLine(const Interval& interval) {
  const double seconds = absl::ToDoubleSeconds(interval.end - interval.begin);
  return absl::StrFormat(
      "%4.0fs  %8.1f requests/s  %10.1f candidates/s  p50 %.2f ms  p99 %.2f ms  in flight %d  "
      "refused %d",
      absl::ToDoubleSeconds(interval.end), static_cast<double>(interval.answered) / seconds,
      static_cast<double>(interval.candidates) / seconds,
      absl::ToDoubleMilliseconds(interval.latency.Quantile(0.5)),
      absl::ToDoubleMilliseconds(interval.latency.Quantile(0.99)), interval.in_flight,
      interval.refused);
}

class Program {
 public:
  Program(LoadOptions options, std::vector<std::string> arguments,
          std::vector<std::pair<std::string, std::string>> settings, const LoadStreams& streams)
      : options_(std::move(options)), arguments_(std::move(arguments)), streams_(streams) {
    context_.settings = std::move(settings);
    const std::string progress = absl::GetFlag(FLAGS_progress);
    shows_progress_ = progress == "always" || (progress == "auto" && streams.err_is_terminal);
    context_.load = Describe(options_);
    context_.verified = options_.driver.verify;
    context_.latency_goal = options_.driver.latency_goal;
    context_.has_goal = context_.latency_goal != absl::InfiniteDuration();
    context_.started_at = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone());
  }

  LoadExit Run() {
    if (const LoadExit writable = CheckReportFiles(); writable != kLoadOk) {
      return writable;
    }
    if (const LoadExit met = CheckServers(); met != kLoadOk) {
      return met;
    }
    if (const LoadExit made = MakePool(); made != kLoadOk) {
      return made;
    }
    LoadResult result;
    bool found = true;
    if (options_.search) {
      found = Search(&result);
    } else {
      result = RunOnce(options_.rate);
      context_.offered = OfferedRates(options_, options_.rate, trace_);
    }
    return Report(result, found);
  }

 private:
  // Refuses report files that cannot be written before the run, because its figures would be lost.
  LoadExit CheckReportFiles() {
    const std::pair<absl::string_view, std::string> files[] = {{"json", absl::GetFlag(FLAGS_json)},
                                                               {"csv", absl::GetFlag(FLAGS_csv)},
                                                               {"html", absl::GetFlag(FLAGS_html)}};
    for (const auto& [flag, path] : files) {
      if (path.empty() || path == "-") {
        continue;
      }
      if (const absl::Status status = CheckOutputFile(path); !status.ok()) {
        return Fail(kLoadUsage, absl::StrCat("--", flag, ": ", status.message()));
      }
    }
    return kLoadOk;
  }

  LoadExit Fail(LoadExit code, absl::string_view problem) {
    streams_.err << "canopy_load: " << EscapeForTerminal(problem) << "\n";
    return code;
  }

  LoadExit FailCall(const std::string& address, const absl::Status& status) {
    const bool unreachable = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
    std::string hint = ConnectionHint(status, address);
    if (hint.empty() && unreachable) {
      hint = "is canopy_server running there?";
    }
    return Fail(unreachable ? kLoadUnreachable : kLoadFailed,
                absl::StrCat(address, ": ", absl::StatusCodeToString(status.code()), ": ",
                             status.message(), hint.empty() ? "" : "; ", hint));
  }

  // Checks that every target answers, and with the same model if answers are compared.
  LoadExit CheckServers() {
    for (const Target& target : options_.driver.targets) {
      ClientOptions client_options = options_.driver.client;
      client_options.target = target.address;
      auto client = Client::Create(client_options);
      if (!client.ok()) {
        return Fail(kLoadUsage, client.status().message());
      }
      v1::GetModelRequest request;
      request.set_name(options_.pool.head.model());
      const absl::StatusOr<v1::Model> model = (*client)->GetModel(request);
      if (!model.ok()) {
        return FailCall(target.address, model.status());
      }
      if (first_client_ == nullptr) {
        first_client_ = *std::move(client);
        context_.model = *model;
      } else if (options_.driver.verify && model->fingerprint() != context_.model.fingerprint()) {
        return Fail(
            kLoadFailed,
            absl::StrCat(target.address, " serves weights ", model->fingerprint(), ", others ",
                         context_.model.fingerprint(), ": their answers cannot be compared"));
      }
    }
    return kLoadOk;
  }

  LoadExit MakePool() {
    PoolOptions pool_options = options_.pool;
    pool_options.vocab_size = context_.model.vocab_size();
    pool_options.max_path_tokens = context_.model.max_path_tokens();
    absl::StatusOr<RequestPool> pool = absl::UnknownError("");
    if (options_.kind == LoadKind::kTrace) {
      std::ifstream file;
      if (absl::Status status = OpenForReading(options_.trace_file, &file); !status.ok()) {
        return Fail(kLoadUsage, absl::StrCat("--trace: ", status.message()));
      }
      pool = RequestPool::FromTrace(file, pool_options, &trace_);
    } else {
      pool = RequestPool::FromMix(options_.mix, pool_options);
    }
    if (!pool.ok()) {
      return Fail(kLoadUsage,
                  absl::StrCat(options_.kind == LoadKind::kTrace
                                   ? absl::StrCat("--trace '", options_.trace_file, "': ")
                                   : "--shapes: ",
                               pool.status().message()));
    }
    pool_ = std::make_unique<RequestPool>(*std::move(pool));
    if (options_.driver.verify) {
      Note(absl::StrCat("computing the answers of ", pool_->size(), " requests path by path"));
      if (absl::Status status = ExpectAnswers(first_client_.get(), pool_.get()); !status.ok()) {
        return FailCall(options_.driver.targets[0].address, status);
      }
    }
    return kLoadOk;
  }

  void Note(absl::string_view text) {
    if (shows_progress_) {
      streams_.err << "canopy_load: " << text << "\n" << std::flush;
    }
  }

  bool interrupted() const { return streams_.interrupted != nullptr && *streams_.interrupted; }

  // The other client processes run closed loops of the same requests, without reports and without
  // an end.
  KilledClientOptions MakeKilledClientOptions() const {
    KilledClientOptions clients;
    clients.program = streams_.program;
    clients.arguments = arguments_;
    for (const char* argument :
         {"--victims=0", "--verify=false", "--cancel_share=0", "--kill_share=0", "--trace=",
          "--arrivals=closed", "--steps=", "--search=false", "--requests=0", "--duration=720h",
          "--warmup=0", "--thresholds=", "--json=", "--csv=", "--html=", "--progress=never"}) {
      clients.arguments.emplace_back(argument);
    }
    clients.count = options_.victims;
    clients.life = options_.victim_life;
    clients.seed = options_.driver.seed + 1;
    return clients;
  }

  LoadResult RunOnce(double rate) {
    DriverOptions driver_options = options_.driver;
    driver_options.arrivals = MakeArrivals(options_, rate, trace_);
    LoadDriver driver(driver_options, pool_.get());
    std::vector<Interval> intervals;
    KilledClients clients(MakeKilledClientOptions());
    driver.Start();
    while (!driver.WaitUntilDone(kProgressInterval)) {
      AppendInterval(driver.TakeInterval(), &intervals);
      ShowProgress(intervals.back());  // the current interval; only older ones are merged
      if (interrupted()) {
        driver.Stop();
      }
    }
    AppendLastInterval(driver.TakeInterval(), &intervals);
    if (shows_progress_ && streams_.err_is_terminal) {
      streams_.err << "\r\x1b[K" << std::flush;
    }
    LoadResult result = driver.Finish();
    result.killed_clients = clients.Stop();
    result.intervals = std::move(intervals);
    return result;
  }

  void ShowProgress(const Interval& interval) {
    if (shows_progress_) {
      streams_.err << (streams_.err_is_terminal ? "\r\x1b[K" : "") << ProgressLine(interval)
                   << (streams_.err_is_terminal ? "" : "\n") << std::flush;
    }
  }

  // Sets `result` to that of the best rate, or of the last failed rate if none met the goal.
  bool Search(LoadResult* result) {
    RateSearchOptions search;
    search.first_rate = options_.rate;
    double shown_rate = search.first_rate;
    bool found = false;
    // If the JSON document goes to stdout, nothing else is written there.
    std::ostream& out = absl::GetFlag(FLAGS_json) == "-" ? streams_.err : streams_.out;
    const double best = SearchRate(search, [&](double rate) {
      if (interrupted()) {
        return false;
      }
      LoadResult run = RunOnce(rate);
      const RateProbe probe = EvaluateRate(rate, run);
      context_.probes.push_back(probe);
      out << absl::StrFormat("rate %10.1f  answered %10.1f  quantile %.3f ms  %s\n", rate,
                             probe.answered, absl::ToDoubleMilliseconds(probe.latency),
                             probe.holds ? "holds" : "does not hold")
          << std::flush;
      if (probe.holds || !found) {
        *result = std::move(run);
        shown_rate = rate;
      }
      found = found || probe.holds;
      return probe.holds;
    });
    out << absl::StrFormat("highest rate within the goal: %.1f requests a second\n\n", best);
    // The figures are those of one run, so the report describes that run.
    LoadOptions shown = options_;
    shown.rate = shown_rate;
    const size_t tried = context_.probes.size();
    const std::string goal = absl::FormatDuration(context_.latency_goal);
    context_.load = absl::StrCat(
        Describe(shown), "; ",
        found ? absl::StrCat("of ", tried, " rates tried the highest that meets the goal of ", goal)
              : absl::StrCat("the last of ", tried,
                             " rates tried, none of which meets the goal of ", goal));
    context_.offered = OfferedRates(options_, shown_rate, trace_);
    return found;
  }

  RateProbe EvaluateRate(double rate, const LoadResult& run) const {
    RateProbe probe;
    probe.rate = rate;
    probe.answered = run.PerSecond(run.total.num(CallOutcome::kAnswered));
    probe.latency = run.total.latency.Quantile(options_.goal_quantile);
    probe.holds = run.total.num(CallOutcome::kAnswered) > 0 &&
                  probe.latency <= context_.latency_goal &&
                  run.total.error_share() <= kMaxErrorShare &&
                  probe.answered >= kMinShareOfRate * rate && run.wrong_answers.empty();
    return probe;
  }

  bool Write(const std::string& flag, const std::string& path, const std::string& text) {
    if (path.empty()) {
      return true;
    }
    if (path == "-") {
      streams_.out << text << std::flush;
      return static_cast<bool>(streams_.out);
    }
    const absl::Status written = WriteOutputFile(path, text);
    if (!written.ok()) {
      Fail(kLoadUsage, absl::StrCat("--", flag, ": ", written.message()));
    }
    return written.ok();
  }

  LoadExit Report(const LoadResult& result, bool found) {
    context_.missed_thresholds = MissedThresholds(options_.thresholds, FiguresOf(result));
    const std::string json_file = absl::GetFlag(FLAGS_json);
    if (json_file != "-") {
      streams_.out << context_.load << "\n\n" << ReportText(result, context_) << std::flush;
    }
    // If one report cannot be written, the others still are.
    const bool has_json = Write("json", json_file, ReportJson(result, context_));
    const bool has_csv = Write("csv", absl::GetFlag(FLAGS_csv), ReportCsv(result));
    const bool has_html = Write("html", absl::GetFlag(FLAGS_html), ReportHtml(result, context_));
    if (const absl::Status totals = result.CheckTotals(); !totals.ok()) {
      return Fail(kLoadWrong, totals.message());
    }
    if (!result.wrong_answers.empty()) {
      return Fail(kLoadWrong, absl::StrCat("wrong answer: ", result.wrong_answers[0]));
    }
    if (!has_json || !has_csv || !has_html) {
      return kLoadUsage;
    }
    if (const KilledClientCounts& clients = result.killed_clients; clients.ended > 0) {
      return Fail(clients.last_exit_code == kLoadWrong ? kLoadWrong : kLoadFailed,
                  absl::StrCat(clients.ended,
                               " of the processes to be killed ended by themselves, "
                               "the last with exit code ",
                               clients.last_exit_code));
    }
    if (result.total.num(CallOutcome::kAnswered) == 0) {
      return Fail(kLoadFailed, "no call was answered after the warm-up");
    }
    return found && context_.missed_thresholds.empty() ? kLoadOk : kLoadMissed;
  }

  const LoadOptions options_;
  const std::vector<std::string> arguments_;
  const LoadStreams& streams_;
  ReportContext context_;
  bool shows_progress_ = false;
  std::unique_ptr<Client> first_client_;
  std::unique_ptr<RequestPool> pool_;
  std::vector<absl::Duration> trace_;
};

std::string HelpText() {
  std::string text =
      "canopy_load [flags]: sends load to Canopy servers, checks every answer and measures.\n\n" +
      FlagsHelp(LoadFlagNames()) + "\nShapes:\n";
  for (const Shape& shape : NamedShapes()) {
    absl::StrAppendFormat(&text, "  %-14s %s\n", shape.name, shape.description);
  }
  return text +
         "  QxC:P+T        Q questions of P tokens, C candidates of T each, as 4x8:100+16\n\n"
         "Exit codes: 0 ok; 1 refused, or nothing was answered; 2 usage: bad flag, trace or file;\n"
         "  3 a server cannot be reached; 4 a threshold was missed, or no rate met the goal;\n"
         "  5 an answer was wrong, or the totals do not add up.\n"
         "The report goes to stdout; errors and progress go to stderr. SIGINT ends sending, and "
         "reports.\n";
}

// Returns the flags that were given, with their values.
std::vector<std::pair<std::string, std::string>> Settings(const std::vector<std::string>& flags) {
  std::vector<std::pair<std::string, std::string>> settings;
  settings.reserve(flags.size());
  for (const std::string& flag : flags) {
    settings.emplace_back(flag, absl::FindCommandLineFlag(flag)->CurrentValue());
  }
  return settings;
}

}  // namespace

LoadExit RunLoad(absl::Span<const std::string> arguments, const LoadStreams& streams) {
  const absl::StatusOr<Arguments> read = ReadArguments(arguments, LoadFlagNames());
  absl::Status status = read.status();
  if (status.ok() && read->help) {
    streams.out << HelpText() << std::flush;
    return streams.out ? kLoadOk : kLoadUsage;
  }
  if (status.ok() && !read->positional.empty()) {
    status =
        absl::InvalidArgumentError(absl::StrCat("unexpected argument '", read->positional[0], "'"));
  }
  const std::string progress = absl::GetFlag(FLAGS_progress);
  if (status.ok() && progress != "auto" && progress != "always" && progress != "never") {
    status = absl::InvalidArgumentError(
        absl::StrCat("--progress: '", progress, "' is not one of auto|always|never"));
  }
  absl::StatusOr<LoadOptions> options = absl::UnknownError("");
  if (status.ok()) {
    options = LoadOptionsFromFlags();
    status = options.status();
  }
  if (!status.ok()) {
    streams.err << "canopy_load: " << EscapeForTerminal(status.message())
                << "\nTry: canopy_load --help\n";
    return kLoadUsage;
  }
  return Program(*std::move(options), {arguments.begin(), arguments.end()}, Settings(read->flags),
                 streams)
      .Run();
}

}  // namespace canopy::client
