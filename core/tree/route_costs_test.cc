#include "core/tree/route_costs.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace canopy {
namespace {

// Loads like those that are measured: few and many tokens, long and short paths, zero or several
// groups.
const std::vector<RouteLoad> kLoads = {{1, 0, 48, 1'152},         {1, 0, 464, 53'824},
                                       {1, 2, 512, 32'768},       {1, 2, 2'304, 331'776},
                                       {2, 0, 8'192, 2'097'152},  {1, 3, 16'384, 8'388'608},
                                       {3, 0, 30'000, 30'000'000}};

std::vector<CostSample> Samples(const BackendCost& cost) {
  std::vector<CostSample> samples;
  samples.reserve(kLoads.size());
  for (const RouteLoad& load : kLoads) {
    samples.push_back({load, ForecastMs(cost, load)});
  }
  return samples;
}

TEST(ForecastTest, AddsWhatEachPartCosts) {
  EXPECT_DOUBLE_EQ(ForecastMs({1, 0.5, 0.01, 0.001}, {2, 3, 100, 1'000}), 2 + 1.5 + 1 + 1);
  EXPECT_EQ(ForecastMs({}, {2, 3, 100, 1'000}), 0);
}

TEST(FitCostTest, FindsTheCostsThatMadeTheSamples) {
  for (const BackendCost& cost :
       {BackendCost{1.3, 0.2, 2e-3, 3e-8}, BackendCost{0.5, 0, 1e-1, 1e-6},
        BackendCost{0, 0, 5e-2, 0}, BackendCost{20, 3, 0, 0}}) {
    const BackendCost found = FitCost(Samples(cost));
    EXPECT_NEAR(found.forward_ms, cost.forward_ms, 1e-6 * (1 + cost.forward_ms));
    EXPECT_NEAR(found.group_ms, cost.group_ms, 1e-6 * (1 + cost.group_ms));
    EXPECT_NEAR(found.token_ms, cost.token_ms, 1e-6 * cost.token_ms + 1e-12);
    EXPECT_NEAR(found.pair_ms, cost.pair_ms, 1e-6 * cost.pair_ms + 1e-15);
  }
}

// Plain least squares would make a coefficient negative if measurements are noisy.
TEST(FitCostTest, IsNeverNegativeAndStaysNearNoisySamples) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> noise(0.8, 1.25);
  for (int round = 0; round < 200; ++round) {
    std::vector<CostSample> samples = Samples({0.05, 0.01, 1e-2, 1e-8});
    for (CostSample& sample : samples) {
      sample.ms *= noise(random);
    }
    const BackendCost found = FitCost(samples);
    for (const double part : {found.forward_ms, found.group_ms, found.token_ms, found.pair_ms}) {
      EXPECT_GE(part, 0);
    }
    for (const CostSample& sample : samples) {
      EXPECT_NEAR(ForecastMs(found, sample.load) / sample.ms, 1, 0.5) << "round " << round;
    }
  }
}

TEST(FitCostTest, NoCoordinateStepLowersTheError) {
  std::mt19937 random(8);
  std::uniform_real_distribution<double> noise(0.5, 2);
  const auto error = [](const BackendCost& cost, const std::vector<CostSample>& samples) {
    double sum = 0;
    for (const CostSample& sample : samples) {
      sum += std::pow(ForecastMs(cost, sample.load) / sample.ms - 1, 2);
    }
    return sum;
  };
  for (int round = 0; round < 50; ++round) {
    std::vector<CostSample> samples = Samples({0.3, 0.1, 1e-2, 1e-7});
    for (CostSample& sample : samples) {
      sample.ms *= noise(random);
    }
    const BackendCost found = FitCost(samples);
    const double least = error(found, samples);
    for (double BackendCost::*part : {&BackendCost::forward_ms, &BackendCost::group_ms,
                                      &BackendCost::token_ms, &BackendCost::pair_ms}) {
      for (const double step : {1e-9, -1e-9, 1e-5, -1e-5}) {
        BackendCost moved = found;
        moved.*part = std::max(0.0, moved.*part + step);
        EXPECT_GE(error(moved, samples), least * (1 - 1e-9));
      }
    }
  }
}

TEST(FitCostTest, FewSamplesGiveSomethingUsable) {
  EXPECT_EQ(FitCost({}).token_ms, 0);
  const std::vector<CostSample> one = {{{1, 0, 100, 5'000}, 4}};
  EXPECT_NEAR(ForecastMs(FitCost(one), one[0].load), 4, 1e-9);
  EXPECT_NEAR(ForecastMs(FitCost(one), {1, 0, 200, 20'000}), 8, 1e-9);
  const std::vector<CostSample> same = {{{1, 0, 100, 5'000}, 4}, {{2, 0, 200, 10'000}, 8}};
  EXPECT_NEAR(ForecastMs(FitCost(same), {4, 0, 400, 20'000}), 16, 1e-6);
}

}  // namespace
}  // namespace canopy
