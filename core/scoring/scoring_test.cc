#include <cmath>
#include <limits>

#include "ATen/ops/arange.h"
#include "ATen/ops/full.h"
#include "ATen/ops/linalg_vector_norm.h"
#include "ATen/ops/sin.h"
#include "ATen/ops/zeros.h"
#include "core/scoring/reward.h"
#include "core/scoring/vectors.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

// [rows, columns] without a pattern, in -1 .. 1.
at::Tensor Values(int64_t rows, int64_t columns) {
  return at::sin(at::arange(rows * columns, at::kFloat).mul_(12.9898)).view({rows, columns});
}

TEST(EndpointVectorsTest, RoundsToTheTypeAskedFor) {
  const at::Tensor hidden = Values(3, 5);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor vectors = EndpointVectors(hidden, type, false);
    EXPECT_TRUE(vectors.equal(hidden.to(type)));
    EXPECT_TRUE(vectors.is_contiguous());
  }
}

TEST(EndpointVectorsTest, NormalizesInFloat32AndKeepsZeroRows) {
  at::Tensor hidden = Values(4, 129).mul_(1e-3);
  hidden[2].zero_();
  const at::Tensor vectors = EndpointVectors(hidden, at::kFloat, true);
  for (int64_t row = 0; row < 4; ++row) {
    double sum = 0;
    for (int64_t column = 0; column < 129; ++column) {
      sum += std::pow(vectors[row][column].item<double>(), 2);
    }
    EXPECT_NEAR(std::sqrt(sum), row == 2 ? 0 : 1, 1e-6);
  }
  const double ratio = hidden[0][0].item<double>() / hidden[0][7].item<double>();
  EXPECT_NEAR(vectors[0][0].item<double>() / vectors[0][7].item<double>(), ratio, 1e-5);
}

TEST(FiniteRowsTest, OneBadElementMarksItsRowOnly) {
  at::Tensor rows = Values(5, 113);
  rows[1][112] = std::numeric_limits<float>::quiet_NaN();
  rows[3][0] = -std::numeric_limits<float>::infinity();
  const at::Tensor finite = FiniteRows(rows);
  for (int64_t row = 0; row < 5; ++row) {
    EXPECT_EQ(finite[row].item<bool>(), row != 1 && row != 3) << row;
  }
}

TEST(RewardHeadTest, IsTheDotProductInFloat32) {
  const at::Tensor weight = Values(2, 97);
  const at::Tensor hidden = Values(3, 97).mul(3).to(at::kBFloat16);
  const at::Tensor scores = RewardHead(weight).Score(hidden);
  ASSERT_EQ(scores.scalar_type(), at::kFloat);
  for (int64_t path = 0; path < 3; ++path) {
    for (int64_t label = 0; label < 2; ++label) {
      double sum = 0;
      for (int64_t i = 0; i < 97; ++i) {
        sum += weight[label][i].item<double>() * hidden[path][i].item<double>();
      }
      EXPECT_NEAR(scores[path][label].item<double>(), sum, 1e-4);
    }
  }
}

}  // namespace
}  // namespace canopy
