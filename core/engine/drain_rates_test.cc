#include "core/engine/drain_rates.h"

#include <cstdint>
#include <optional>
#include <string>

#include "core/engine/waiting_work.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

constexpr int64_t kMaxBatchTokens = 16'384;
constexpr int64_t kMaxBatchBytes = 1'000'000;

void Record(DrainRates& rates, int64_t tokens, double seconds_per_token, int64_t times) {
  for (int64_t i = 0; i < times; ++i) {
    rates.Record(tokens, tokens, seconds_per_token * static_cast<double>(tokens));
  }
}

Work Alone(int64_t tokens, int64_t forecast_nanos = 0) {
  return {false, tokens, tokens < kMaxBatchTokens ? tokens : kMaxBatchTokens, 1, forecast_nanos};
}

Work Sharing(int64_t tokens, int64_t device_bytes = 1) {
  return {true, tokens, tokens, device_bytes, 0};
}

TEST(DrainRates, SizeClassesArePowersOfTwo) {
  EXPECT_EQ(SizeClass(1), 0);
  EXPECT_EQ(SizeClass(2), 1);
  EXPECT_EQ(SizeClass(1023), 9);
  EXPECT_EQ(SizeClass(1024), 10);
  EXPECT_EQ(SizeClass(int64_t{1} << 62), 62);
}

TEST(DrainRates, OnlyEnoughForwardsOfSimilarSizeGiveARate) {
  DrainRates rates;
  Record(rates, 1'024, 0.5, DrainRates::kMinSamples - 1);
  EXPECT_EQ(rates.MinSecondsPerToken(10), std::nullopt);
  Record(rates, 1'024, 0.5, 1);
  EXPECT_EQ(rates.MinSecondsPerToken(8), std::nullopt);
  EXPECT_DOUBLE_EQ(*rates.MinSecondsPerToken(9), 0.5);
  EXPECT_DOUBLE_EQ(*rates.MinSecondsPerToken(10), 0.5);
  EXPECT_DOUBLE_EQ(*rates.MinSecondsPerToken(11), 0.5);
  EXPECT_EQ(rates.MinSecondsPerToken(12), std::nullopt);
  Record(rates, 2'048, 0.25, DrainRates::kMinSamples);
  EXPECT_DOUBLE_EQ(*rates.MinSecondsPerToken(10), 0.5) << "its own";
  EXPECT_DOUBLE_EQ(*rates.MinSecondsPerToken(12), 0.25);
  Record(rates, 4'096, 0.125, 1);
  Record(rates, 8'192, 0.125, DrainRates::kMinSamples);
  EXPECT_DOUBLE_EQ(*rates.MinSecondsPerToken(12), 0.125) << "the cheaper neighbour";
}

TEST(DrainRates, OneSlowForwardAmongFewDoesNotRaiseTheRate) {
  DrainRates rates;
  Record(rates, 1'000, 10, 1);
  Record(rates, 1'000, 1, 3);
  EXPECT_LT(*rates.MinSecondsPerToken(9), 1.5) << "the mean is 3.1";
  Record(rates, 1'000, 1, 100);
  EXPECT_NEAR(*rates.MinSecondsPerToken(9), 1, 0.1);
}

TEST(DrainRates, MixedForwardsHaveARateCloseToTheirMean) {
  DrainRates rates;
  for (int i = 0; i < 100; ++i) {
    Record(rates, 1'000, i % 2 == 0 ? 1 : 3, 1);
  }
  EXPECT_NEAR(*rates.MinSecondsPerToken(9), 2, 0.1)
      << "an estimate far below would let in more than can be answered";
}

TEST(DrainRates, OldEvidenceIsForgotten) {
  DrainRates rates;
  Record(rates, 1'000, 1, 10);
  Record(rates, 10, 1, DrainRates::kStaleAfterForwards - 1);
  EXPECT_NE(rates.MinSecondsPerToken(9), std::nullopt);
  Record(rates, 10, 1, 1);
  EXPECT_EQ(rates.MinSecondsPerToken(9), std::nullopt);
  Record(rates, 1'000, 2, 1);
  EXPECT_EQ(rates.MinSecondsPerToken(9), std::nullopt) << "one new sample does not revive it";
}

TEST(WaitingWork, TheMinimumTimeIsThatOfTheCheapestTokens) {
  DrainRates rates;
  WaitingWork work(kMaxBatchTokens, kMaxBatchBytes);
  work.Add("", Alone(100));
  work.Add("", Alone(10'000));
  work.Add("", Alone(1'000));
  EXPECT_EQ(work.tokens(), 11'100);
  EXPECT_EQ(work.MinSeconds(11'100, rates), 0) << "nothing is known";
  Record(rates, 100, 10, 4);
  Record(rates, 10'000, 1, 4);
  EXPECT_DOUBLE_EQ(work.MinSeconds(1'000, rates), 0) << "all of it may be the unknown ones";
  EXPECT_DOUBLE_EQ(work.MinSeconds(1'500, rates), 500);
  EXPECT_NEAR(work.MinSeconds(11'010, rates), 10'000 + 10 * 10, 0.01);
  work.Remove("", Alone(10'000));
  EXPECT_NEAR(work.MinSeconds(1'100, rates), 100 * 10, 0.01);
}

TEST(WaitingWork, ForecastsAreUsedWithoutSamples) {
  DrainRates rates;
  WaitingWork work(kMaxBatchTokens, kMaxBatchBytes);
  work.Add("", Alone(1'000, 2'000'000'000));
  work.Add("", Alone(1'000, 0));
  EXPECT_DOUBLE_EQ(work.MinSeconds(2'000, rates), 2);
  EXPECT_DOUBLE_EQ(work.MinSecondsOf("", Alone(500, 1'000'000'000), rates), 1);
  Record(rates, 1'000, 0.5, 4);
  EXPECT_DOUBLE_EQ(work.MinSeconds(2'000, rates), 1'000);
}

TEST(WaitingWork, SharedWorkHasTheSizeOfItsForwards) {
  DrainRates rates;
  Record(rates, 16'000, 1, 4);
  WaitingWork work(kMaxBatchTokens, kMaxBatchBytes);
  for (int i = 0; i < 40; ++i) {
    work.Add("a", Sharing(100));
    work.Add("b" + std::to_string(i), Sharing(100));
  }
  EXPECT_EQ(work.MinSeconds(8'000, rates), 0) << "4,000 under one key, 100 under each other";
  for (int i = 0; i < 60; ++i) {
    work.Add("a", Sharing(100));
  }
  EXPECT_EQ(work.MinSeconds(14'000, rates), 10'000) << "10,000 under one key";
  EXPECT_DOUBLE_EQ(work.MinSecondsOf("a", Sharing(100), rates), 100);
  EXPECT_EQ(work.MinSecondsOf("b", Sharing(100), rates), 0);
  for (int i = 0; i < 60; ++i) {
    work.Remove("a", Sharing(100));
  }
  EXPECT_EQ(work.MinSeconds(8'000, rates), 0);
}

TEST(WaitingWork, TheByteLimitOfABatchMakesItsForwardsSmaller) {
  DrainRates rates;
  Record(rates, 1'000, 1, 4);
  WaitingWork work(kMaxBatchTokens, kMaxBatchBytes);
  for (int i = 0; i < 100; ++i) {
    work.Add("a", Sharing(100, kMaxBatchBytes / 10));
  }
  EXPECT_EQ(work.MinSeconds(10'000, rates), 10'000) << "ten jobs of 100 tokens each";
}

}  // namespace
}  // namespace canopy
