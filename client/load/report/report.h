// Formats the result of a load test as text, JSON, CSV and a web page, with the same numbers.
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
  double rate = 0;         // the offered requests per second
  double answered = 0;     // the answered requests per second
  absl::Duration latency;  // the quantile of the latency goal
  bool holds = false;
};

// Describes the run that a result belongs to.
struct ReportContext {
  std::string load;  // a description: `closed loop, 8 clients; small`
  // flags that were set, with their values
  std::vector<std::pair<std::string, std::string>> settings;
  v1::Model model;         // the model of the first target
  std::string started_at;  // RFC 3339, UTC.
  bool verified = false;
  bool has_goal = false;
  absl::Duration latency_goal;
  // the offered rates from the start of sending; empty = a closed loop
  std::vector<RateStep> offered;
  std::vector<RateProbe> probes;  // the runs of a search, in order
  std::vector<std::string> missed_thresholds;
};

// Returns a text for a terminal: a table of latencies, then rates, outcomes of calls and the
// server's stages.
std::string ReportText(const LoadResult& result, const ReportContext& context);

// Returns one document: {"load", "settings", "model", "started_at", "verified", "figures": {NAME:
// NUMBER}, "totals": {"started", "answered", "answered_candidates", ..., including the warm-up},
// "outcomes", "probes": [{"rate", "answered", "latency_ms", "holds"}, ...] (of a search), "routes",
// "targets": [{"address", "share", "answered", "refused", ...}], "intervals": [...],
// "wrong_answers", "missed_thresholds"}.
std::string ReportJson(const LoadResult& result, const ReportContext& context);

// Returns one row per interval: begin_s, end_s, answered, refused, given_up, candidates, in_flight,
// and latencies in ms.
std::string ReportCsv(const LoadResult& result);

// Returns one HTML file with charts, without external resources or scripts.
std::string ReportHtml(const LoadResult& result, const ReportContext& context);

// Formats a time for reports: three decimals, without the unit.
std::string InMilliseconds(absl::Duration duration);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_REPORT_REPORT_H_
