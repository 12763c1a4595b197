#include "client/load/tally.h"

#include <cmath>
#include <string>
#include <vector>

#include "client/load/figures.h"
#include "client/load/thresholds.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// 10 calls: 6 answered (4 of them within 50 ms), 2 refused, and one each cancelled and killed.
Tally TenCalls() {
  static const PooledRequest* const kRequest = [] {
    auto* request = new PooledRequest();
    request->questions = 2;
    request->candidates = 5;
    request->input_tokens = 100;
    request->unique_tokens = 30;
    return request;
  }();
  static const v1::Stats* const kStats = [] {
    auto* stats = new v1::Stats();
    stats->set_backend(v1::BACKEND_PATH);
    stats->set_reason("small_batch");
    stats->set_queue_ms(2);
    stats->set_total_ms(8);
    stats->set_computed_tokens(40);
    return stats;
  }();
  Tally tally;
  for (int i = 1; i <= 10; ++i) {
    CallRecord record;
    record.request = kRequest;
    record.latency = absl::Milliseconds(i * 12);
    record.service_time = absl::Milliseconds(10);
    record.lateness = absl::Milliseconds(i);
    record.stats = kStats;
    if (i > 6) {
      record.fate = i == 9 ? Fate::kCancelled : i == 10 ? Fate::kKilled : Fate::kRefused;
      record.code = absl::StatusCode::kUnavailable;
      record.reason = i == 7 ? "loading" : "";
      record.attempts = 3;
    }
    tally.Record(record, absl::Milliseconds(50));
  }
  return tally;
}

double FigureOf(const LoadResult& result, const std::string& name) {
  for (const Figure& figure : FiguresOf(result)) {
    if (figure.name == name) {
      return figure.value;
    }
  }
  ADD_FAILURE() << "no figure " << name;
  return 0;
}

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
    record.fate = Fate::kRefused;
    record.code =
        *reason == '\0' ? absl::StatusCode::kUnavailable : absl::StatusCode::kResourceExhausted;
    record.reason = reason;
    record.service_time = absl::Milliseconds(record.reason == "QUEUE_FULL" ? 1 : 500);
    tally.Record(record, absl::Milliseconds(50));
  }
  EXPECT_EQ(tally.num(Fate::kRefused), 3U);
  EXPECT_EQ(tally.refusal.count(), 1);
  EXPECT_EQ(tally.refusal.max(), absl::Milliseconds(1));
}

TEST(FiguresTest, RatesArePerSecondOfTheRun) {
  LoadResult result;
  EXPECT_EQ(FigureOf(result, "requests_per_s"), 0);
  result.total = TenCalls();
  result.elapsed = absl::Seconds(2);
  EXPECT_EQ(FigureOf(result, "requests_per_s"), 3);
  EXPECT_EQ(FigureOf(result, "goodput_per_s"), 2);
  EXPECT_EQ(FigureOf(result, "questions_per_s"), 6);
  EXPECT_EQ(FigureOf(result, "candidates_per_s"), 15);
  EXPECT_EQ(FigureOf(result, "input_tokens_per_s"), 300);
  EXPECT_EQ(FigureOf(result, "unique_tokens_per_s"), 90);
  EXPECT_EQ(FigureOf(result, "computed_tokens_per_s"), 120);
  EXPECT_EQ(FigureOf(result, "refused"), 2);
  EXPECT_EQ(FigureOf(result, "latency_max_ms"), 72);
  EXPECT_NEAR(FigureOf(result, "latency_p50_ms"), 36, 36 * LatencyHistogram::kMaxRelativeError);
  EXPECT_NEAR(FigureOf(result, "service_p99.9_ms"), 10, 0.1);
  EXPECT_NEAR(FigureOf(result, "queue_mean_ms"), 2, 1e-9);
}

TEST(ThresholdsTest, DecideByNameAndComparison) {
  const std::vector<Figure> figures = {{"retries", 5}, {"error_share", 0.25}};
  const auto missed = [&figures](const char* text) {
    const auto thresholds = ParseThresholds(text);
    EXPECT_TRUE(thresholds.ok()) << thresholds.status();
    return MissedThresholds(*thresholds, figures);
  };
  EXPECT_THAT(missed(""), IsEmpty());
  EXPECT_THAT(missed("retries<=5,retries>=5,retries<5.1,retries>4.9,error_share<0.5"), IsEmpty());
  EXPECT_THAT(missed("retries<5,retries>5,retries<=4,retries>=6"),
              ElementsAre("retries is 5, not < 5", "retries is 5, not > 5",
                          "retries is 5, not <= 4", "retries is 5, not >= 6"));
  const std::vector<Figure> not_a_number = {{"retries", std::nan("")}};
  EXPECT_EQ(MissedThresholds(*ParseThresholds("retries<=5,retries>5"), not_a_number).size(), 2U);
}

TEST(ThresholdsTest, WrongOnesAreNamed) {
  for (const char* wrong : {"retries", "retries=5", "<5", "retries<", "retries<x", "retries<inf",
                            "retries<nan", "speed<5", "retries<5,", "retries<<5"}) {
    const auto refused = ParseThresholds(wrong);
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << wrong;
    EXPECT_THAT(refused.status().message(), HasSubstr("threshold '"));
  }
}

}  // namespace
}  // namespace canopy::client
