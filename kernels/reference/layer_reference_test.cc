#include "kernels/reference/layer_reference.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace canopy::kernels::reference {
namespace {

TEST(RmsNorm, DividesByTheRootMeanSquareAndWeighs) {
  // Mean square (9 + 16) / 2 = 12.5.
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

}  // namespace
}  // namespace canopy::kernels::reference
