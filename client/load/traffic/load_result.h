// What a load test found.
#ifndef CLIENT_LOAD_TRAFFIC_LOAD_RESULT_H_
#define CLIENT_LOAD_TRAFFIC_LOAD_RESULT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/load/traffic/killed_clients.h"
#include "client/load/traffic/latency_histogram.h"
#include "client/load/traffic/tally.h"
#include "client/load/traffic/targets.h"

namespace canopy::client {

// What happened in a stretch of the run, the warm-up included.
struct Interval {
  absl::Duration begin;  // From the start of sending.
  absl::Duration end;
  uint64_t answered = 0;
  uint64_t refused = 0;   // Or wrong.
  uint64_t given_up = 0;  // Cancelled or killed on purpose.
  uint64_t candidates = 0;
  int64_t in_flight = 0;  // At its end.
  LatencyHistogram latency;

  // Sums and latencies, and the later one's in_flight.
  void Merge(const Interval& other);
};

// More are of no use to an eye, and a run may last for days.
inline constexpr size_t kMaxIntervals = 600;

// Appends `interval`; first merges each two neighbours where there are kMaxIntervals.
void AppendInterval(Interval interval, std::vector<Interval>* intervals);

// Appends the stretch in which the run ended. One that is shorter than half of its predecessor is
// merged with it: a few answers in a few milliseconds are no rate.
void AppendLastInterval(Interval interval, std::vector<Interval>* intervals);

struct TargetResult {
  Target target;
  Tally tally;
};

struct LoadResult {
  absl::Duration warmup;
  absl::Duration
      elapsed;  // From the end of the warm-up to the last call's end; what rates divide by.
  Tally total;  // Of the calls after the warm-up.
  std::vector<TargetResult> targets;
  std::vector<Interval> intervals;
  std::vector<std::string> wrong_answers;  // The first ones, in words.
  KilledClientCounts killed_clients;       // Processes beside it.

  // All calls, the warm-up's too.
  Tally all_calls;
  uint64_t started = 0;
  uint64_t started_candidates = 0;

  // Calls a second; zero when no time has passed.
  double PerSecond(uint64_t count) const;
  // The totals law: every call that was started has ended in exactly one way, and so has every
  // candidate in it. INTERNAL otherwise.
  absl::Status CheckTotals() const;
};

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_LOAD_RESULT_H_
