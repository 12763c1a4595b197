#include "client/load/traffic/arrivals.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<double> FirstSeconds(Arrivals* arrivals, size_t count) {
  std::vector<double> seconds;
  while (seconds.size() < count) {
    const absl::optional<absl::Duration> next = arrivals->Next();
    if (!next.has_value()) {
      break;
    }
    seconds.push_back(absl::ToDoubleSeconds(*next));
  }
  return seconds;
}

TEST(ArrivalsTest, ConstantIsEquallySpacedWithoutDrift) {
  const auto arrivals = ConstantArrivals(3);
  const std::vector<double> seconds = FirstSeconds(arrivals.get(), 300'001);
  for (size_t i = 0; i < seconds.size(); i += 1'000) {
    EXPECT_NEAR(seconds[i], static_cast<double>(i) / 3, 1e-9);
  }
  EXPECT_DOUBLE_EQ(seconds.back(), 100'000);
}

TEST(ArrivalsTest, StepsKeepTheirRatesAndEnd) {
  const auto arrivals = StepArrivals({{2, absl::Seconds(1)},
                                      {0, absl::Seconds(10)},
                                      {4, absl::Milliseconds(600)},
                                      {1, absl::Milliseconds(1)}});
  EXPECT_THAT(FirstSeconds(arrivals.get(), 100), ElementsAre(0, 0.5, 11, 11.25, 11.5, 11.6));
  EXPECT_FALSE(arrivals->Next().has_value());
}

TEST(ArrivalsTest, TraceComesAsRecorded) {
  const auto arrivals =
      TraceArrivals({absl::ZeroDuration(), absl::Seconds(1), absl::Seconds(1), absl::Seconds(3)});
  EXPECT_THAT(FirstSeconds(arrivals.get(), 100), ElementsAre(0, 1, 1, 3));
}

// The Kolmogorov-Smirnov test: the largest distance between the distribution functions of the
// sample and of the exponential distribution. At this size, 1.63 / sqrt(n) is exceeded in one of
// 100 true samples. The seeds are fixed.
TEST(ArrivalsTest, PoissonGapsAreExponential) {
  constexpr size_t kCount = 20'000;
  for (const uint64_t seed : {1, 2, 3}) {
    for (const double rate : {0.5, 1'000.0}) {
      const auto arrivals = PoissonArrivals(rate, seed);
      std::vector<double> gaps = FirstSeconds(arrivals.get(), kCount);
      std::adjacent_difference(gaps.begin(), gaps.end(), gaps.begin());
      std::sort(gaps.begin(), gaps.end());
      double distance = 0;
      for (size_t i = 0; i < kCount; ++i) {
        const double expected = -std::expm1(-gaps[i] * rate);
        distance = std::max({distance, std::abs(expected - static_cast<double>(i) / kCount),
                             std::abs(expected - static_cast<double>(i + 1) / kCount)});
      }
      EXPECT_LT(distance, 1.63 / std::sqrt(kCount)) << "seed " << seed << " rate " << rate;
    }
  }
}

// Checks that the gaps are independent. The counts of a Poisson process in intervals of length 1
// have variance = mean, and neighbouring counts are uncorrelated.
TEST(ArrivalsTest, PoissonCountsAreDispersedAndUncorrelated) {
  constexpr int kIntervals = 4'000;
  constexpr double kRate = 25;
  const auto arrivals = PoissonArrivals(kRate, 5);
  std::vector<double> counts(kIntervals);
  for (absl::optional<absl::Duration> next = arrivals->Next(); *next < absl::Seconds(kIntervals);
       next = arrivals->Next()) {
    ++counts[static_cast<size_t>(absl::ToDoubleSeconds(*next))];
  }
  const double mean = std::accumulate(counts.begin(), counts.end(), 0.0) / kIntervals;
  double variance = 0;
  double covariance = 0;
  for (int i = 0; i + 1 < kIntervals; ++i) {
    variance += (counts[i] - mean) * (counts[i] - mean) / kIntervals;
    covariance += (counts[i] - mean) * (counts[i + 1] - mean) / kIntervals;
  }
  // The tolerance is four standard errors.
  EXPECT_NEAR(mean, kRate, 4 * std::sqrt(kRate / kIntervals));
  EXPECT_NEAR(variance / mean, 1, 4 * std::sqrt(2.0 / kIntervals));
  EXPECT_NEAR(covariance / variance, 0, 4 / std::sqrt(kIntervals));
}

TEST(ArrivalsTest, EqualSeedsAreEqualSchedules) {
  const auto one = PoissonArrivals(100, 9);
  const auto two = PoissonArrivals(100, 9);
  const auto other = PoissonArrivals(100, 10);
  const std::vector<double> seconds = FirstSeconds(one.get(), 50);
  EXPECT_EQ(seconds, FirstSeconds(two.get(), 50));
  EXPECT_NE(seconds, FirstSeconds(other.get(), 50));
}

TEST(ParseRateStepsTest, ReadsStepsAndNamesWhatIsWrong) {
  const auto steps = ParseRateSteps("100x10s,0x500ms,2.5x1m");
  ASSERT_TRUE(steps.ok());
  ASSERT_EQ(steps->size(), 3U);
  EXPECT_EQ((*steps)[0].rate, 100);
  EXPECT_EQ((*steps)[1].duration, absl::Milliseconds(500));
  EXPECT_EQ((*steps)[2].rate, 2.5);
  EXPECT_EQ(TotalDuration(*steps), absl::Seconds(70.5));
  for (const char* wrong :
       {"", "100", "x10s", "-1x1s", "1x0s", "1x-1s", "nanx1s", "infx1s", "1xinf", "1x1", "1x1s,"}) {
    const auto refused = ParseRateSteps(wrong);
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << wrong;
    EXPECT_THAT(refused.status().message(), HasSubstr("is not RATExDURATION"));
  }
}

}  // namespace
}  // namespace canopy::client
