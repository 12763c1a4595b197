#include "core/model/layers.h"

#include <cmath>
#include <cstdint>

#include "ATen/CPUGeneratorImpl.h"
#include "ATen/ops/ones.h"
#include "ATen/ops/randn.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

at::Tensor Random(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed));
}

// Returns an element of the row, divided by the row's root mean square.
double NormedElement(const at::Tensor& row, int64_t index, double eps) {
  double sum = 0;
  for (int64_t i = 0; i < row.numel(); ++i) {
    sum += std::pow(row[i].item<double>(), 2);
  }
  return row[index].item<double>() / std::sqrt(sum / static_cast<double>(row.numel()) + eps);
}

TEST(RmsNormTest, DividesByTheRootMeanSquare) {
  const at::Tensor x = Random({3, 113}, 1).mul_(1e-2);
  const at::Tensor weight = Random({113}, 2);
  const at::Tensor normed = RmsNorm(x, weight, 1e-5);
  for (const int64_t index : {0, 57, 112}) {
    EXPECT_NEAR(normed[2][index].item<double>(),
                NormedElement(x[2], index, 1e-5) * weight[index].item<double>(), 1e-5);
  }
}

TEST(RmsNormTest, AccumulatesBFloat16InFloat32) {
  const at::Tensor x = Random({1, 4096}, 3).to(at::kBFloat16);
  const at::Tensor normed = RmsNorm(x, at::ones({4096}, at::kBFloat16), 1e-6);
  ASSERT_EQ(normed.scalar_type(), at::kBFloat16);
  const double expected = NormedElement(x[0], 5, 1e-6);
  EXPECT_NEAR(normed[0][5].item<double>(), expected, std::abs(expected) / 128);
}

TEST(HeadRmsNormTest, EachHeadHasItsOwnWeight) {
  const at::Tensor x = Random({2, 3, 8}, 4);
  const at::Tensor weight = Random({3, 8}, 5);
  // The arguments are slices, as in the decoder.
  const at::Tensor normed = HeadRmsNorm(x.narrow(1, 1, 2), weight.narrow(0, 1, 2), 1e-6);
  EXPECT_NEAR(normed[1][1][6].item<double>(),
              NormedElement(x[1][2], 6, 1e-6) * weight[2][6].item<double>(), 1e-5);
}

TEST(GatedSiluTest, GateComesFirst) {
  const at::Tensor gate_up = Random({2, 10}, 7);
  const at::Tensor product = GatedSilu(gate_up);
  for (int64_t i = 0; i < 5; ++i) {
    const double gate = gate_up[1][i].item<double>();
    EXPECT_NEAR(product[1][i].item<double>(),
                gate / (1 + std::exp(-gate)) * gate_up[1][i + 5].item<double>(), 1e-5);
  }
}

TEST(AddProductTest, AddsProductAndBiasIntoTheSum) {
  const at::Tensor rows = Random({3, 5}, 6);
  const at::Tensor weight = Random({5, 4}, 7);
  const at::Tensor bias = Random({4}, 8);
  const at::Tensor before = Random({3, 4}, 9);
  at::Tensor sum = before.clone();
  AddProduct(rows, weight, /*bias=*/{}, sum);
  double product = 0;
  for (int64_t i = 0; i < 5; ++i) {
    product += rows[2][i].item<double>() * weight[i][1].item<double>();
  }
  EXPECT_NEAR(sum[2][1].item<double>(), before[2][1].item<double>() + product, 1e-5);
  const at::Tensor without_bias = sum;
  sum = before.clone();
  AddProduct(rows, weight, bias, sum);
  EXPECT_TRUE(sum.equal(without_bias.add(bias)));
}

}  // namespace
}  // namespace canopy
