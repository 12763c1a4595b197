#include "client/load/report/figures.h"

#include <string>

#include "client/load/traffic/testing/sample_calls.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

double FigureOf(const LoadResult& result, const std::string& name) {
  for (const Figure& figure : FiguresOf(result)) {
    if (figure.name == name) {
      return figure.value;
    }
  }
  ADD_FAILURE() << "no figure " << name;
  return 0;
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

}  // namespace
}  // namespace canopy::client
