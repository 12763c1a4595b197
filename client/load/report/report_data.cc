// The machine-readable reports: JSON and CSV.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/load/report/figures.h"
#include "client/load/report/report.h"
#include "nlohmann/json.hpp"

namespace canopy::client {
namespace {

using Json = nlohmann::ordered_json;

Json CountsJson(const std::map<std::string, uint64_t>& counts) {
  Json json = Json::object();
  for (const auto& [name, count] : counts) {
    json[name] = count;
  }
  return json;
}

Json IntervalJson(const Interval& interval) {
  Json json = {{"begin_s", absl::ToDoubleSeconds(interval.begin)},
               {"end_s", absl::ToDoubleSeconds(interval.end)},
               {"answered", interval.answered},
               {"refused", interval.refused},
               {"given_up", interval.given_up},
               {"candidates", interval.candidates},
               {"in_flight", interval.in_flight}};
  for (const NamedQuantile& named : kQuantiles) {
    json[absl::StrCat(named.name, "_ms")] =
        absl::ToDoubleMilliseconds(interval.latency.Quantile(named.quantile));
  }
  return json;
}

Json TargetJson(const TargetResult& target) {
  Json json = {{"address", target.target.address}, {"share", target.target.share}};
  for (int outcome = 0; outcome < kNumCallOutcomes; ++outcome) {
    json[std::string(CallOutcomeName(static_cast<CallOutcome>(outcome)))] =
        target.tally.calls[static_cast<size_t>(outcome)];
  }
  json["latency_p50_ms"] = absl::ToDoubleMilliseconds(target.tally.latency.Quantile(0.5));
  json["latency_p99_ms"] = absl::ToDoubleMilliseconds(target.tally.latency.Quantile(0.99));
  json["outcomes"] = CountsJson(target.tally.outcomes);
  return json;
}

Json ModelJson(const v1::Model& model) {
  return {
      {"name", model.name()},   {"version", model.version()}, {"fingerprint", model.fingerprint()},
      {"dtype", model.dtype()}, {"device", model.device()},   {"build", model.build()}};
}

}  // namespace

std::string ReportJson(const LoadResult& result, const ReportContext& context) {
  Json settings = Json::object();
  for (const auto& [name, value] : context.settings) {
    settings[name] = value;
  }
  Json json = {{"load", context.load},
               {"settings", settings},
               {"model", ModelJson(context.model)},
               {"started_at", context.started_at},
               {"verified", context.verified}};
  for (const Figure& figure : FiguresOf(result)) {
    json["figures"][figure.name] = figure.value;
  }
  json["totals"] = {{"started", result.started},
                    {"started_candidates", result.started_candidates},
                    {"victims_killed", result.killed_clients.killed},
                    {"victims_ended", result.killed_clients.ended}};
  for (int outcome = 0; outcome < kNumCallOutcomes; ++outcome) {
    const std::string name(CallOutcomeName(static_cast<CallOutcome>(outcome)));
    json["totals"][name] = result.all_calls.calls[static_cast<size_t>(outcome)];
    json["totals"][name + "_candidates"] =
        result.all_calls.candidates[static_cast<size_t>(outcome)];
  }
  json["outcomes"] = CountsJson(result.total.outcomes);
  json["routes"] = CountsJson(result.total.routes);
  json["targets"] = Json::array();
  for (const TargetResult& target : result.targets) {
    json["targets"].push_back(TargetJson(target));
  }
  json["intervals"] = Json::array();
  for (const Interval& interval : result.intervals) {
    json["intervals"].push_back(IntervalJson(interval));
  }
  for (const RateProbe& probe : context.probes) {
    json["probes"].push_back({{"rate", probe.rate},
                              {"answered", probe.answered},
                              {"latency_ms", absl::ToDoubleMilliseconds(probe.latency)},
                              {"holds", probe.holds}});
  }
  json["wrong_answers"] = result.wrong_answers;
  json["missed_thresholds"] = context.missed_thresholds;
  return json.dump(/*indent=*/2, /*indent_char=*/' ', /*ensure_ascii=*/true,
                   Json::error_handler_t::replace) +
         "\n";
}

std::string ReportCsv(const LoadResult& result) {
  std::string csv = "begin_s,end_s,answered,refused,given_up,candidates,in_flight";
  for (const NamedQuantile& named : kQuantiles) {
    absl::StrAppend(&csv, ",", named.name, "_ms");
  }
  csv += "\n";
  for (const Interval& interval : result.intervals) {
    absl::StrAppendFormat(&csv, "%.3f,%.3f,%d,%d,%d,%d,%d", absl::ToDoubleSeconds(interval.begin),
                          absl::ToDoubleSeconds(interval.end), interval.answered, interval.refused,
                          interval.given_up, interval.candidates, interval.in_flight);
    for (const NamedQuantile& named : kQuantiles) {
      absl::StrAppendFormat(&csv, ",%.3f",
                            absl::ToDoubleMilliseconds(interval.latency.Quantile(named.quantile)));
    }
    csv += "\n";
  }
  return csv;
}

}  // namespace canopy::client
