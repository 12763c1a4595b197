// The result of a load test.
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

// The events in a part of the run, including the warm-up.
struct Interval {
  absl::Duration begin;  // since the start of sending
  absl::Duration end;
  uint64_t answered = 0;
  uint64_t refused = 0;   // refused or wrong
  uint64_t given_up = 0;  // cancelled or killed on purpose
  uint64_t candidates = 0;
  int64_t in_flight = 0;  // at the end of the interval
  LatencyHistogram latency;

  // Adds counts and latencies, and keeps the later in_flight.
  void Merge(const Interval& other);
};

// More intervals cannot be read, and a run may last for days.
inline constexpr size_t kMaxIntervals = 600;

// Appends `interval`. If there are kMaxIntervals already, merges pairs of neighbours first.
void AppendInterval(Interval interval, std::vector<Interval>* intervals);

// Appends the interval in which the run ended. If it is shorter than half of the previous one, it
// is merged with that, because a few answers in a few milliseconds give no rate.
void AppendLastInterval(Interval interval, std::vector<Interval>* intervals);

struct TargetResult {
  Target target;
  Tally tally;
};

struct LoadResult {
  absl::Duration warmup;
  // The time from the end of the warm-up to the end of the last call. Rates divide by it.
  absl::Duration elapsed;
  Tally total;  // the calls after the warm-up
  std::vector<TargetResult> targets;
  std::vector<Interval> intervals;
  std::vector<std::string> wrong_answers;  // descriptions of the first ones
  KilledClientCounts killed_clients;       // processes that ran at the same time

  // All calls, including the warm-up.
  Tally all_calls;
  uint64_t started = 0;
  uint64_t started_candidates = 0;

  // Returns calls per second; zero if no time has passed.
  double PerSecond(uint64_t count) const;
  // Checks that every started call has ended in exactly one way, and so has every candidate in it.
  // Returns INTERNAL otherwise.
  absl::Status CheckTotals() const;
};

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_LOAD_RESULT_H_
