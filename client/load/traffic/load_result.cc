#include "client/load/traffic/load_result.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

namespace canopy::client {

void Interval::Merge(const Interval& other) {
  answered += other.answered;
  refused += other.refused;
  given_up += other.given_up;
  candidates += other.candidates;
  in_flight = other.in_flight;
  latency.Merge(other.latency);
}

void AppendInterval(Interval interval, std::vector<Interval>* intervals) {
  if (intervals->size() == kMaxIntervals) {
    for (size_t pair = 0; pair < kMaxIntervals / 2; ++pair) {
      Interval& first = (*intervals)[2 * pair];
      const Interval& second = (*intervals)[2 * pair + 1];
      first.Merge(second);
      first.end = second.end;
      if (pair > 0) {
        (*intervals)[pair] = std::move(first);
      }
    }
    intervals->resize(kMaxIntervals / 2);
  }
  intervals->push_back(std::move(interval));
}

void AppendLastInterval(Interval interval, std::vector<Interval>* intervals) {
  if (!intervals->empty()) {
    Interval& previous = intervals->back();
    if (interval.end - interval.begin < (previous.end - previous.begin) / 2) {
      previous.Merge(interval);
      previous.end = interval.end;
      return;
    }
  }
  AppendInterval(std::move(interval), intervals);
}

double LoadResult::PerSecond(uint64_t count) const {
  return elapsed <= absl::ZeroDuration()
             ? 0
             : static_cast<double>(count) / absl::ToDoubleSeconds(elapsed);
}

absl::Status LoadResult::CheckTotals() const {
  const uint64_t candidates =
      std::accumulate(all_calls.candidates.begin(), all_calls.candidates.end(), uint64_t{0});
  if (all_calls.total() == started && candidates == started_candidates) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat("totals do not add up: ", started, " calls with ",
                                          started_candidates, " candidates started, ",
                                          all_calls.total(), " with ", candidates, " ended"));
}

}  // namespace canopy::client
