#include "kernels/reference/layer_reference.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace canopy::kernels::reference {
namespace {

TEST(RmsNorm, DividesByTheRootMeanSquareAndWeighs) {
  // The mean square is (9 + 16) / 2 = 12.5.
  const std::vector<double> out = RmsNorm({3, 4}, {1, 2}, 0);
  EXPECT_NEAR(out[0], 3 / std::sqrt(12.5), 1e-12);
  EXPECT_NEAR(out[1], 8 / std::sqrt(12.5), 1e-12);
  EXPECT_NEAR(RmsNorm({0, 0}, {1, 1}, 1e-6)[0], 0, 0);
  EXPECT_NEAR(RmsNorm({1, 1}, {1, 1}, 3)[0], 0.5, 1e-12);
}

TEST(Rope, TurnsPairsAcrossHalvesByPositionTimesFrequency) {
  const std::vector<double> out = Rope({1, 2, 3, 4}, 2, {0.5F, 0});
  EXPECT_NEAR(out[0], std::cos(1.0) - 3 * std::sin(1.0), 1e-12);
  EXPECT_NEAR(out[2], 3 * std::cos(1.0) + std::sin(1.0), 1e-12);
  EXPECT_EQ(out[1], 2);
  EXPECT_EQ(out[3], 4);
}

TEST(SiluMul, GatesTheSecondHalf) {
  const std::vector<double> out = SiluMul({0, 1, 5, 3});
  EXPECT_EQ(out[0], 0);
  EXPECT_NEAR(out[1], 3 / (1 + std::exp(-1.0)), 1e-12);
}

TEST(ReadLogits, DescribesTheSoftmaxAtATemperature) {
  // The probabilities at temperature 2 are 1/4, 1/2 and 1/4.
  const double doubled = 2 * std::log(2.0);
  const LogitStats stats = ReadLogits({5, 5 + doubled, 5}, 2);
  EXPECT_NEAR(stats.log_sum_exp, 2.5 + std::log(4.0), 1e-12);
  EXPECT_NEAR(stats.entropy, 1.5 * std::log(2.0), 1e-12);
  EXPECT_EQ(stats.min_logit, 5);
  EXPECT_EQ(stats.max_logit, 5 + doubled);
  EXPECT_NEAR(ReadLogits({1000, 0}, 1).log_sum_exp, 1000, 1e-12);
  EXPECT_NEAR(ReadLogits({1000, 0}, 1).entropy, 0, 1e-12);
}

TEST(RankOf, CountsFromOneAndPrefersLowerColumns) {
  const std::vector<double> logits = {2, 5, 2, -1, 5};
  const int32_t ranks[] = {3, 1, 4, 5, 2};
  for (int32_t column = 0; column < 5; ++column) {
    EXPECT_EQ(RankOf(logits, column), ranks[column]);
  }
  EXPECT_EQ(RankOf({1, INFINITY}, 0), -1);
  EXPECT_EQ(RankOf({NAN, 1}, 1), -1);
}

}  // namespace
}  // namespace canopy::kernels::reference
