#include "client/load/traffic/tally.h"

#include "client/load/traffic/testing/sample_calls.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(TallyTest, CountsCallsByTheirEnd) {
  const Tally tally = TenCalls();
  EXPECT_THAT(tally.calls, ElementsAre(6, 2, 1, 1, 0));
  EXPECT_THAT(tally.candidates, ElementsAre(30, 10, 5, 5, 0));
  EXPECT_EQ(tally.within_goal, 4U);
  EXPECT_EQ(tally.retries, 8U);
  EXPECT_EQ(tally.error_share(), 0.25);
  EXPECT_EQ(tally.lateness.count(), 10);
  EXPECT_EQ(tally.latency.max(), absl::Milliseconds(72));
  EXPECT_THAT(tally.outcomes,
              ElementsAre(Pair("OK", 6), Pair("UNAVAILABLE", 1), Pair("UNAVAILABLE loading", 1),
                          Pair("cancelled here", 1), Pair("killed here", 1)));
  EXPECT_THAT(tally.routes, ElementsAre(Pair("path small_batch", 6)));
  EXPECT_EQ(tally.stages[static_cast<size_t>(Stage::kQueue)].max(), absl::Milliseconds(2));
  EXPECT_EQ(tally.stages[static_cast<size_t>(Stage::kOutside)].max(), absl::Milliseconds(2));
}

TEST(TallyTest, MergingAdds) {
  Tally tally = TenCalls();
  tally.Merge(TenCalls());
  tally.Merge(Tally());
  EXPECT_THAT(tally.calls, ElementsAre(12, 4, 2, 2, 0));
  EXPECT_EQ(tally.unique_tokens, 360U);
  EXPECT_EQ(tally.computed_tokens, 480U);
  EXPECT_EQ(tally.service_time.count(), 12);
  EXPECT_THAT(tally.routes, ElementsAre(Pair("path small_batch", 12)));
  EXPECT_EQ(Tally().error_share(), 0);
}

TEST(TallyTest, ARefusalIsWhatNeverWaited) {
  Tally tally;
  const PooledRequest request;
  for (const char* reason : {"QUEUE_FULL", "DISPLACED", ""}) {
    CallRecord record;
    record.request = &request;
    record.outcome = CallOutcome::kRefused;
    record.code =
        *reason == '\0' ? absl::StatusCode::kUnavailable : absl::StatusCode::kResourceExhausted;
    record.reason = reason;
    record.service_time = absl::Milliseconds(record.reason == "QUEUE_FULL" ? 1 : 500);
    tally.Record(record, absl::Milliseconds(50));
  }
  EXPECT_EQ(tally.num(CallOutcome::kRefused), 3U);
  EXPECT_EQ(tally.refusal.count(), 1);
  EXPECT_EQ(tally.refusal.max(), absl::Milliseconds(1));
}

}  // namespace
}  // namespace canopy::client
