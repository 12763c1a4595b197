#include "client/load/traffic/load_result.h"

#include <vector>

#include "gtest/gtest.h"

namespace canopy::client {
namespace {

TEST(LoadResultTest, TotalsThatDoNotAddUpAreAnError) {
  LoadResult result;
  result.started = 2;
  result.started_candidates = 12;
  result.all_calls.calls = {1, 1, 0, 0, 0};
  result.all_calls.candidates = {6, 6, 0, 0, 0};
  EXPECT_TRUE(result.CheckTotals().ok());
  result.all_calls.candidates[1] = 5;
  EXPECT_TRUE(absl::IsInternal(result.CheckTotals()));
  result.all_calls.candidates[1] = 6;
  result.all_calls.calls[0] = 2;
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
    ASSERT_LE(intervals.size(), kMaxIntervals);
  }
  uint64_t answered = 0;
  uint64_t refused = 0;
  int64_t latencies = 0;
  absl::Duration end;
  for (const Interval& interval : intervals) {
    EXPECT_EQ(interval.begin, end);  // no gap and no overlap
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
  EXPECT_GT(intervals.size(), kMaxIntervals / 2);
}

Interval Stretch(absl::Duration begin, absl::Duration end, uint64_t answered) {
  Interval interval;
  interval.begin = begin;
  interval.end = end;
  interval.answered = answered;
  return interval;
}

// As an interval of its own, 18 answers in the last 20 ms would be drawn as 900 per second.
TEST(AppendIntervalTest, AShortLastIntervalIsMergedWithThePreviousOne) {
  const absl::Duration second = absl::Seconds(1);
  std::vector<Interval> intervals = {Stretch(second * 0, second, 100),
                                     Stretch(second, 2 * second, 100)};
  AppendLastInterval(Stretch(2 * second, 2 * second + absl::Milliseconds(20), 18), &intervals);
  ASSERT_EQ(intervals.size(), 2U);
  EXPECT_EQ(intervals[1].begin, second);
  EXPECT_EQ(intervals[1].end, absl::Milliseconds(2'020));
  EXPECT_EQ(intervals[1].answered, 118U);

  AppendLastInterval(Stretch(absl::Milliseconds(2'020), absl::Milliseconds(2'700), 70), &intervals);
  ASSERT_EQ(intervals.size(), 3U) << "half a stretch and more is one";
  EXPECT_EQ(intervals[2].answered, 70U);

  std::vector<Interval> alone;
  AppendLastInterval(Stretch(second * 0, absl::Milliseconds(20), 18), &alone);
  EXPECT_EQ(alone.size(), 1U);
}

}  // namespace
}  // namespace canopy::client
