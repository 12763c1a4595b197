// A load test's result as text, JSON, CSV and a web page. All say the same numbers.
#ifndef CLIENT_LOAD_REPORT_REPORT_H_
#define CLIENT_LOAD_REPORT_REPORT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "canopy/v1/types.pb.h"
#include "client/load/traffic/arrivals.h"
#include "client/load/traffic/load_result.h"

namespace canopy::client {

// One run of a search.
struct RateProbe {
  double rate = 0;         // Requests a second, as offered.
  double answered = 0;     // Requests a second, as answered.
  absl::Duration latency;  // Quantile that the goal is about.
  bool holds = false;
};

// Describes the run that a result belongs to.
struct ReportContext {
  std::string load;  // In words: `closed loop, 8 clients; small`.
  std::vector<std::pair<std::string, std::string>> settings;  // Flag and value, of those set.
  v1::Model model;                                            // Of the first target.
  std::string started_at;                                     // RFC 3339, UTC.
  bool verified = false;
  bool has_goal = false;
  absl::Duration latency_goal;
  std::vector<RateStep> offered;  // From the start of sending; empty = a closed loop.
  std::vector<RateProbe> probes;  // Of a search, in the order of its runs.
  std::vector<std::string> missed_thresholds;
};

// For a terminal: a table of latencies, then rates, ends of calls, the server's stages.
std::string ReportText(const LoadResult& result, const ReportContext& context);

// One document: {"load", "settings", "model", "started_at", "verified", "figures": {NAME: NUMBER},
// "totals": {"started", "answered", "answered_candidates", ..., warm-up included}, "outcomes",
// "probes": [{"rate", "answered", "latency_ms", "holds"}, ...] (of a search), "routes", "targets":
// [{"address", "share", "answered", "refused", ...}], "intervals": [...], "wrong_answers",
// "missed_thresholds"}.
std::string ReportJson(const LoadResult& result, const ReportContext& context);

// A row for each interval: begin_s, end_s, answered, refused, given_up, candidates, in_flight,
// and latencies in ms.
std::string ReportCsv(const LoadResult& result);

// One file with charts, which loads nothing from elsewhere and runs no script.
std::string ReportHtml(const LoadResult& result, const ReportContext& context);

// As reports show a time: three decimals, without the unit.
std::string InMilliseconds(absl::Duration duration);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_REPORT_REPORT_H_
