#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/load/report/figures.h"
#include "client/load/report/report.h"
#include "client/load/report/svg_chart.h"

namespace canopy::client {
namespace {

constexpr char kHead[] = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>canopy_load</title>
<style>
:root { --ink: #1c2024; --dim: #60646c; --edge: #d9dce1; --page: #fff; --tile: #f4f5f7;
  --c0: #1668c7; --c1: #d9480f; --c2: #2b8a3e; --c3: #7048a8; --c4: #b08900; --c5: #0b7285;
  --c6: #868e96; --bad: #c92a2a; }
@media (prefers-color-scheme: dark) { :root { --ink: #eceef1; --dim: #a0a4ab; --edge: #3a3d42;
  --page: #17191c; --tile: #22252a; --c0: #6cb2ff; --c1: #ff9a66; --c2: #69c97d; --c3: #b996ef;
  --c4: #e0bd3c; --c5: #4cc3d9; --c6: #adb5bd; --bad: #ff8787; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--page);
  max-width: 1180px; margin: 0 auto; padding: 20px; }
h1 { font-size: 22px; margin: 0; } h2 { font-size: 16px; margin: 28px 0 8px; }
p { margin: 4px 0; } .dim { color: var(--dim); } .bad { color: var(--bad); font-weight: 600; }
.tiles { display: flex; flex-wrap: wrap; gap: 10px; margin: 18px 0; }
.tile { background: var(--tile); border-radius: 6px; padding: 8px 14px; min-width: 110px; }
.tile b { display: block; font-size: 20px; font-variant-numeric: tabular-nums; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(480px, 100%), 1fr));
  gap: 18px; }
figure { margin: 0; } figcaption { font-weight: 600; margin-bottom: 4px; }
svg { width: 100%; height: auto; display: block; } svg text { font-size: 11px; fill: var(--dim); }
.grid { stroke: var(--edge); } .line { fill: none; stroke-width: 2; stroke: currentColor; }
.dot, .bar { fill: currentColor; }
.c0 { color: var(--c0); } .c1 { color: var(--c1); } .c2 { color: var(--c2); }
.c3 { color: var(--c3); } .c4 { color: var(--c4); } .c5 { color: var(--c5); }
.c6 { color: var(--c6); }
.dot { stroke: currentColor; stroke-width: 1.5; } .hollow { fill: none; }
.key { display: inline-block; width: 10px; height: 10px; background: currentColor;
  border-radius: 2px; margin: 0 4px 0 10px; }
svg.sample { display: inline-block; width: 32px; height: 12px; margin: 0 4px 0 10px; }
.name { white-space: nowrap; font-weight: 400; }
.legend { list-style: none; padding: 0; margin: 6px 0; display: flex; flex-wrap: wrap; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 3px 12px; border-bottom: 1px solid var(--edge); }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
.texts th, .texts td { text-align: left; }
</style></head><body>
)";

std::string Row(const std::string& tag, const std::vector<std::string>& cells) {
  std::string row = "<tr>";
  for (const std::string& cell : cells) {
    absl::StrAppend(&row, "<", tag, ">", EscapeHtml(cell), "</", tag, ">");
  }
  return row + "</tr>\n";
}

std::string Table(const std::vector<std::string>& head,
                  const std::vector<std::vector<std::string>>& rows) {
  std::string table = "<div class='scroll'><table>\n" + Row("th", head);
  for (const std::vector<std::string>& row : rows) {
    table += Row("td", row);
  }
  return table + "</table></div>\n";
}

// Formats a number with separators between thousands.
std::string Number(double value) {
  std::string text = absl::StrFormat("%.*f", value >= 100 ? 0 : value >= 1 ? 2 : 3, value);
  for (size_t at = std::min(text.find('.'), text.size()); at > 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

std::string Tile(const std::string& value, const std::string& what) {
  return absl::StrCat("<div class='tile'><b>", value, "</b><span class='dim'>", what,
                      "</span></div>\n");
}

std::string Tiles(const LoadResult& result, const ReportContext& context) {
  const Tally& total = result.total;
  std::string tiles = "<div class='tiles'>\n";
  tiles += Tile(Number(result.PerSecond(total.num(CallOutcome::kAnswered))), "requests a second");
  tiles += Tile(Number(result.PerSecond(total.num_candidates(CallOutcome::kAnswered))),
                "candidates a second");
  tiles += Tile(Number(result.PerSecond(total.input_tokens)), "tokens a second");
  tiles += Tile(Number(result.PerSecond(total.unique_tokens)), "unique tokens a second");
  tiles += Tile(InMilliseconds(total.latency.Quantile(0.5)), "ms, p50");
  tiles += Tile(InMilliseconds(total.latency.Quantile(0.99)), "ms, p99");
  if (context.has_goal) {
    tiles +=
        Tile(Number(result.PerSecond(total.within_goal)),
             absl::StrCat("requests a second within ", absl::FormatDuration(context.latency_goal)));
  }
  tiles += Tile(absl::StrFormat("%.3f%%", 100 * total.error_share()), "errors");
  if (context.verified) {
    tiles +=
        Tile(Number(static_cast<double>(result.all_calls.num_candidates(CallOutcome::kAnswered))),
             "candidates verified");
  }
  return tiles + "</div>\n";
}

// Returns the middle of an interval, at which the charts draw its point.
double MiddleSeconds(const Interval& interval) {
  return absl::ToDoubleSeconds(interval.begin + (interval.end - interval.begin) / 2);
}

// Returns the end of the last interval, or 0 without intervals.
double EndSeconds(const LoadResult& result) {
  return result.intervals.empty() ? 0 : absl::ToDoubleSeconds(result.intervals.back().end);
}

// A reference line at one height, drawn from `from` to `to`.
ChartSeries Level(const std::string& name, double value, double from, double to) {
  return {name, {{from, value}, {to, value}}, /*reference=*/true};
}

// A reference line that shows the rates of an open loop until its last interval ends.
ChartSeries OfferedSeries(const std::vector<RateStep>& steps, const LoadResult& result) {
  ChartSeries series{"offered", {}, /*reference=*/true};
  const absl::Duration end = result.intervals.back().end;
  absl::Duration at;
  for (const RateStep& step : steps) {
    if (at < end) {
      series.points.emplace_back(absl::ToDoubleSeconds(at), step.rate);
      at = std::min(at + step.duration, end);
      series.points.emplace_back(absl::ToDoubleSeconds(at), step.rate);
    }
  }
  return series;
}

LineChart RateChart(const LoadResult& result, const ReportContext& context) {
  LineChart chart{"Requests a second",
                  "seconds",
                  "requests / s",
                  {{"answered", {}}, {"refused or wrong", {}}, {"given up", {}}},
                  {},
                  false,
                  EndSeconds(result)};
  for (const Interval& interval : result.intervals) {
    const double seconds = absl::ToDoubleSeconds(interval.end - interval.begin);
    if (seconds > 0) {
      const uint64_t counts[] = {interval.answered, interval.refused, interval.given_up};
      for (size_t i = 0; i < 3; ++i) {
        chart.series[i].points.emplace_back(MiddleSeconds(interval),
                                            static_cast<double>(counts[i]) / seconds);
      }
    }
  }
  if (!context.offered.empty() && !result.intervals.empty()) {
    chart.series.push_back(OfferedSeries(context.offered, result));
  }
  return chart;
}

LineChart LatencyChart(const LoadResult& result, const ReportContext& context) {
  LineChart chart{"Latency over time",
                  "seconds",
                  "ms, log scale",
                  {{"p50", {}}, {"p99", {}}, {"max", {}}},
                  {},
                  true,
                  EndSeconds(result)};
  for (const Interval& interval : result.intervals) {
    const double quantiles[] = {0.5, 0.99, 1};
    for (size_t i = 0; i < 3 && interval.latency.count() > 0; ++i) {
      chart.series[i].points.emplace_back(
          MiddleSeconds(interval),
          absl::ToDoubleMilliseconds(interval.latency.Quantile(quantiles[i])));
    }
  }
  if (context.has_goal && !result.intervals.empty()) {
    chart.series.push_back(
        Level("goal", absl::ToDoubleMilliseconds(context.latency_goal), 0, EndSeconds(result)));
  }
  return chart;
}

LineChart QuantileChart(const Tally& total, const ReportContext& context) {
  LineChart chart{"Latency by share of calls",
                  "share of calls that are faster",
                  "ms, log scale",
                  {{"latency, from the intended instant", {}},
                   {"service time, from sending", {}},
                   {"lateness of sending", {}}},
                  {},
                  true};
  const LatencyHistogram* histograms[] = {&total.latency, &total.service_time, &total.lateness};
  // The axis has equal steps for each additional nine.
  const NamedQuantile quantiles[] = {{"0", 0},      {"50%", 0.5},     {"90%", 0.9},
                                     {"99%", 0.99}, {"99.9%", 0.999}, {"99.99%", 0.9999},
                                     {"max", 1}};
  for (size_t i = 0; i < std::size(quantiles); ++i) {
    chart.x_labels.emplace_back(quantiles[i].name);
    for (size_t series = 0; series < 3 && total.latency.count() > 0; ++series) {
      chart.series[series].points.emplace_back(
          static_cast<double>(i),
          absl::ToDoubleMilliseconds(histograms[series]->Quantile(quantiles[i].quantile)));
    }
  }
  if (context.has_goal && total.latency.count() > 0) {
    chart.series.push_back(Level("goal", absl::ToDoubleMilliseconds(context.latency_goal), 0,
                                 static_cast<double>(std::size(quantiles) - 1)));
  }
  return chart;
}

// Returns a bar of the mean call, divided into the server's stages and the rest.
std::string StageBar(const Tally& total) {
  std::vector<BarPart> parts;
  double named = 0;
  const auto mean = [&total](Stage stage) {
    return absl::ToDoubleMilliseconds(total.stages[static_cast<size_t>(stage)].mean());
  };
  for (const Stage stage : {Stage::kDecode, Stage::kQueue, Stage::kPlan, Stage::kDevice,
                            Stage::kEncodeQueue, Stage::kEncode}) {
    parts.push_back({std::string(StageName(stage)), mean(stage)});
    named += parts.back().value;
  }
  parts.push_back({"server, other", mean(Stage::kServer) - named});
  parts.push_back({"outside the server", mean(Stage::kOutside)});
  return DrawStackedBar("Where the mean call's time goes", "ms", parts);
}

std::string LatencyHtml(const Tally& total) {
  std::vector<std::string> head = {"ms", "mean"};
  for (const NamedQuantile& named : kQuantiles) {
    head.emplace_back(named.name);
  }
  std::vector<std::vector<std::string>> rows;
  const auto add = [&rows](std::string name, const LatencyHistogram& histogram) {
    std::vector<std::string> row = {std::move(name), InMilliseconds(histogram.mean())};
    for (const NamedQuantile& named : kQuantiles) {
      row.push_back(InMilliseconds(histogram.Quantile(named.quantile)));
    }
    rows.push_back(std::move(row));
  };
  add("latency", total.latency);
  add("service time", total.service_time);
  add("lateness", total.lateness);
  for (int stage = 0; stage < kNumStages; ++stage) {
    add(std::string(StageName(static_cast<Stage>(stage))),
        total.stages[static_cast<size_t>(stage)]);
  }
  return Table(head, rows);
}

std::string CountTable(const std::string& what, const std::map<std::string, uint64_t>& counts) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(counts.size());
  for (const auto& [name, count] : counts) {
    rows.push_back({name, absl::StrCat(count)});
  }
  return Table({what, "calls"}, rows);
}

std::string TargetTable(const LoadResult& result) {
  std::vector<std::vector<std::string>> rows;
  for (const TargetResult& target : result.targets) {
    const Tally& tally = target.tally;
    rows.push_back({target.target.address, absl::StrCat(target.target.share),
                    absl::StrCat(tally.num(CallOutcome::kAnswered)),
                    absl::StrCat(tally.num(CallOutcome::kRefused) + tally.num(CallOutcome::kWrong)),
                    InMilliseconds(tally.latency.Quantile(0.5)),
                    InMilliseconds(tally.latency.Quantile(0.99))});
  }
  return Table({"target", "share", "answered", "refused or wrong", "p50 ms", "p99 ms"}, rows);
}

// Returns the table of a search's runs.
std::string ProbeTable(const ReportContext& context) {
  if (context.probes.empty()) {
    return "";
  }
  std::vector<std::vector<std::string>> rows;
  rows.reserve(context.probes.size());
  for (const RateProbe& probe : context.probes) {
    rows.push_back({Number(probe.rate), Number(probe.answered), InMilliseconds(probe.latency),
                    probe.holds ? "holds" : "does not hold"});
  }
  return "<h2>Rates tried</h2>\n" +
         Table({"offered a second", "answered a second", "quantile ms", "goal"}, rows);
}

std::string Problems(const LoadResult& result, const ReportContext& context) {
  std::string text;
  for (const std::string& wrong : result.wrong_answers) {
    absl::StrAppend(&text, "<p class='bad'>Wrong answer: ", EscapeHtml(wrong), "</p>\n");
  }
  for (const std::string& missed : context.missed_thresholds) {
    absl::StrAppend(&text, "<p class='bad'>Threshold missed: ", EscapeHtml(missed), "</p>\n");
  }
  return text;
}

std::string KilledClientsSentence(const KilledClientCounts& clients) {
  return clients.killed + clients.ended == 0
             ? ""
             : absl::StrCat(" ", clients.killed, " client processes were killed meanwhile.");
}

}  // namespace

std::string ReportHtml(const LoadResult& result, const ReportContext& context) {
  const Tally& total = result.total;
  std::string html = kHead;
  absl::StrAppend(
      &html, "<h1>canopy_load</h1>\n<p>", EscapeHtml(context.load), "</p>\n<p class='dim'>",
      "model ", EscapeHtml(context.model.name()), " version ", context.model.version(), " ",
      EscapeHtml(context.model.fingerprint()), ", ", EscapeHtml(context.model.dtype()), " on ",
      EscapeHtml(context.model.device()), "; ", EscapeHtml(context.started_at), "; ",
      absl::FormatDuration(absl::Trunc(result.elapsed, absl::Milliseconds(1))), ", ",
      result.warmup > absl::ZeroDuration()
          ? absl::StrCat("after ", absl::FormatDuration(result.warmup), " of warm-up")
          : "without a warm-up",
      "</p>\n", Problems(result, context), Tiles(result, context), "<div class='charts'>\n",
      DrawLineChart(RateChart(result, context)), DrawLineChart(LatencyChart(result, context)),
      DrawLineChart(QuantileChart(total, context)), StageBar(total), "</div>\n",
      ProbeTable(context), "<h2>Latencies</h2>\n", LatencyHtml(total), "<h2>Ends of calls</h2>\n",
      CountTable("end", total.outcomes),
      absl::StrFormat("<p class='dim'>%d retries. All calls, warm-up included: %d "
                      "started, %d ended.%s</p>\n",
                      total.retries, result.started, result.all_calls.total(),
                      KilledClientsSentence(result.killed_clients)),
      "<h2>Routes</h2>\n", CountTable("backend and reason", total.routes), "<h2>Targets</h2>\n",
      TargetTable(result));
  std::vector<std::vector<std::string>> settings;
  for (const auto& [name, value] : context.settings) {
    settings.push_back({absl::StrCat("--", name), value});
  }
  absl::StrAppend(&html, "<h2>Flags</h2>\n<div class='texts'>", Table({"flag", "value"}, settings),
                  "</div></body></html>\n");
  return html;
}

}  // namespace canopy::client
