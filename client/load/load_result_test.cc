#include "client/load/load_result.h"

#include <vector>

#include "gtest/gtest.h"

namespace canopy::client {
namespace {

TEST(LoadResultTest, TotalsThatDoNotAddUpAreAnError) {
  LoadResult result;
  result.started = 2;
  result.started_candidates = 12;
  result.ledger.calls = {1, 1, 0, 0, 0};
  result.ledger.candidates = {6, 6, 0, 0, 0};
  EXPECT_TRUE(result.CheckTotals().ok());
  result.ledger.candidates[1] = 5;
  EXPECT_TRUE(absl::IsInternal(result.CheckTotals()));
  result.ledger.candidates[1] = 6;
  result.ledger.calls[0] = 2;
  EXPECT_TRUE(absl::IsInternal(result.CheckTotals()));
}

TEST(AppendIntervalTest, LongRunsKeepEveryCallInFewerIntervals) {
  std::vector<Interval> intervals;
  for (int second = 0; second < 5'000; ++second) {
    Interval interval;
    interval.begin = absl::Seconds(second);
    interval.end = absl::Seconds(second + 1);
    interval.answered = 3;
    interval.refused = 2;
    interval.in_flight = second;
    interval.latency.Record(absl::Seconds(1));
    AppendInterval(interval, &intervals);
    ASSERT_LE(intervals.size(), kMostIntervals);
  }
  uint64_t answered = 0;
  uint64_t refused = 0;
  int64_t latencies = 0;
  absl::Duration end;
  for (const Interval& interval : intervals) {
    EXPECT_EQ(interval.begin, end);  // No gap, no overlap.
    end = interval.end;
    EXPECT_EQ(interval.in_flight, absl::ToInt64Seconds(interval.end) - 1);
    answered += interval.answered;
    refused += interval.refused;
    latencies += interval.latency.count();
  }
  EXPECT_EQ(end, absl::Seconds(5'000));
  EXPECT_EQ(answered, 15'000U);
  EXPECT_EQ(refused, 10'000U);
  EXPECT_EQ(latencies, 5'000);
  EXPECT_GT(intervals.size(), kMostIntervals / 2);
}

}  // namespace
}  // namespace canopy::client
