#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/terminal_text.h"
#include "client/cli/text_table.h"
#include "client/load/report/figures.h"
#include "client/load/report/report.h"

namespace canopy::client {
namespace {

std::string LatencyTable(const Tally& tally) {
  std::vector<TextTable::Column> columns = {{"ms", TextTable::Align::kLeft}, {"mean"}};
  for (const NamedQuantile& named : kQuantiles) {
    columns.push_back({named.name});
  }
  TextTable table(std::move(columns));
  const auto add = [&table](std::string name, const LatencyHistogram& histogram) {
    std::vector<std::string> cells = {std::move(name), InMilliseconds(histogram.mean())};
    for (const NamedQuantile& named : kQuantiles) {
      cells.push_back(InMilliseconds(histogram.Quantile(named.quantile)));
    }
    table.AddRow(std::move(cells));
  };
  add("latency", tally.latency);
  add("service time", tally.service_time);
  add("lateness", tally.lateness);
  for (int stage = 0; stage < kNumStages; ++stage) {
    add(absl::StrCat("  ", StageName(static_cast<Stage>(stage))),
        tally.stages[static_cast<size_t>(stage)]);
  }
  std::string text;
  for (const std::string& line : table.Lines()) {
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string Counts(const std::map<std::string, uint64_t>& counts) {
  std::string text;
  for (const auto& [name, count] : counts) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", EscapeForTerminal(name), " ", count);
  }
  return text.empty() ? "-" : text;
}

}  // namespace

std::string InMilliseconds(absl::Duration duration) {
  return absl::StrFormat("%.3f", absl::ToDoubleMilliseconds(duration));
}

std::string ReportText(const LoadResult& result, const ReportContext& context) {
  const Tally& total = result.total;
  std::string text = absl::StrCat(LatencyTable(total), "\n");
  absl::StrAppendFormat(
      &text, "a second  requests %.1f  questions %.1f  candidates %.1f  tokens %.0f  unique %.0f\n",
      result.PerSecond(total.num(CallOutcome::kAnswered)), result.PerSecond(total.questions),
      result.PerSecond(total.num_candidates(CallOutcome::kAnswered)),
      result.PerSecond(total.input_tokens), result.PerSecond(total.unique_tokens));
  if (context.has_goal) {
    absl::StrAppendFormat(&text, "goodput   %.1f requests a second within %s\n",
                          result.PerSecond(total.within_goal),
                          absl::FormatDuration(context.latency_goal));
  }
  absl::StrAppend(&text, "ended     ", Counts(total.outcomes), "; retries ", total.retries, "\n",
                  "routes    ", Counts(total.routes), "\n");
  for (const TargetResult& target : result.targets) {
    if (result.targets.size() > 1) {
      absl::StrAppend(&text, "target    ", EscapeForTerminal(target.target.address), ": ",
                      Counts(target.tally.outcomes), "; p99 ",
                      InMilliseconds(target.tally.latency.Quantile(0.99)), " ms\n");
    }
  }
  const Tally& all_calls = result.all_calls;
  absl::StrAppend(&text, "totals    ", result.started, " calls with ", result.started_candidates,
                  " candidates started, warm-up included: ", all_calls.num(CallOutcome::kAnswered),
                  " answered, ", all_calls.num(CallOutcome::kRefused), " refused, ",
                  all_calls.num(CallOutcome::kCancelled), " cancelled, ",
                  all_calls.num(CallOutcome::kKilled), " killed, ",
                  all_calls.num(CallOutcome::kWrong), " wrong\n");
  if (context.verified) {
    absl::StrAppend(&text, "verified  ", all_calls.num_candidates(CallOutcome::kAnswered),
                    " candidates, each answered once, in order, with the score of its path alone; ",
                    all_calls.num_candidates(CallOutcome::kWrong), " in wrong answers\n");
  }
  if (result.killed_clients.killed + result.killed_clients.ended > 0) {
    absl::StrAppend(&text, "victims   ", result.killed_clients.killed, " client processes killed, ",
                    result.killed_clients.ended, " ended by themselves\n");
  }
  for (const std::string& wrong : result.wrong_answers) {
    absl::StrAppend(&text, "WRONG     ", EscapeForTerminal(wrong), "\n");
  }
  for (const std::string& missed : context.missed_thresholds) {
    absl::StrAppend(&text, "MISSED    ", missed, "\n");
  }
  return text;
}

}  // namespace canopy::client
