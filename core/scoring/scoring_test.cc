#include <cmath>
#include <limits>

#include "ATen/ops/arange.h"
#include "ATen/ops/full.h"
#include "ATen/ops/linalg_vector_norm.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/sin.h"
#include "ATen/ops/zeros.h"
#include "core/checkpoint/weight_source.h"
#include "core/scoring/reranker.h"
#include "core/scoring/reward.h"
#include "core/scoring/vectors.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

// Returns [rows, columns] irregular values in -1 .. 1.
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

TEST(EndpointVectorsTest, NormalizesInFloat32AndHasNoDirectionForZeroRows) {
  at::Tensor hidden = Values(4, 129).mul_(1e-3);
  hidden[2].zero_();
  const at::Tensor vectors = EndpointVectors(hidden, at::kFloat, true);
  EXPECT_FALSE(FiniteRows(vectors)[2].item<bool>());
  for (const int64_t row : {0, 1, 3}) {
    double sum = 0;
    for (int64_t column = 0; column < 129; ++column) {
      sum += std::pow(vectors[row][column].item<double>(), 2);
    }
    EXPECT_NEAR(std::sqrt(sum), 1, 1e-6);
  }
  const double ratio = hidden[0][0].item<double>() / hidden[0][7].item<double>();
  EXPECT_NEAR(vectors[0][0].item<double>() / vectors[0][7].item<double>(), ratio, 1e-5);
}

// The squares of these elements are 0 or infinite in float32.
TEST(EndpointVectorsTest, NormalizesVerySmallAndVeryLargeRows) {
  const at::Tensor hidden = Values(2, 129);
  const at::Tensor expected = EndpointVectors(hidden, at::kFloat, true);
  for (const double scale : {1e-30, 1e30}) {
    const at::Tensor vectors = EndpointVectors(hidden.mul(scale), at::kFloat, true);
    EXPECT_TRUE(vectors.allclose(expected, 1e-5, 1e-6)) << scale;
  }
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

// A vocabulary head [5, hidden] whose rows come from Values.
struct Vocabulary {
  at::Tensor rows;
  TensorView view;

  explicit Vocabulary(int64_t hidden) : rows(Values(5, hidden).mul(4)) {
    view = {"lm_head.weight",
            DType::kFloat32,
            {5, hidden},
            {static_cast<const uint8_t*>(rows.const_data_ptr()),
             static_cast<size_t>(rows.numel() * 4)}};
  }
};

TEST(YesNoHeadTest, IsTheShareOfYesAmongTwoLogits) {
  const Vocabulary vocabulary(97);
  const at::Tensor hidden = Values(3, 97).to(at::kBFloat16);
  const auto head = YesNoHead::Load(vocabulary.view, {4, 1}, at::kCPU);
  ASSERT_TRUE(head.ok()) << head.status();
  const at::Tensor scores = head->Score(hidden);
  ASSERT_EQ(scores.sizes(), (at::IntArrayRef{3, 1}));
  for (int64_t path = 0; path < 3; ++path) {
    double difference = 0;
    for (int64_t i = 0; i < 97; ++i) {
      difference += (vocabulary.rows[4][i].item<double>() - vocabulary.rows[1][i].item<double>()) *
                    hidden[path][i].item<double>();
    }
    EXPECT_NEAR(scores[path][0].item<double>(), 1 / (1 + std::exp(-difference)), 1e-5);
  }
}

TEST(YesNoHeadTest, ReadsTheRowsOfEveryStorageType) {
  Vocabulary vocabulary(8);
  const at::Tensor rounded = vocabulary.rows.to(at::kBFloat16);
  vocabulary.view.dtype = DType::kBFloat16;
  vocabulary.view.bytes = {static_cast<const uint8_t*>(rounded.const_data_ptr()),
                           static_cast<size_t>(rounded.numel() * 2)};
  const auto head = YesNoHead::Load(vocabulary.view, {0, 3}, at::kCPU);
  ASSERT_TRUE(head.ok()) << head.status();
  const at::Tensor hidden = Values(1, 8);
  const at::Tensor logits = at::linear(hidden, rounded.to(at::kFloat));
  EXPECT_NEAR(head->Score(hidden)[0][0].item<double>(),
              1 / (1 + std::exp(logits[0][3].item<double>() - logits[0][0].item<double>())), 1e-6);
}

TEST(YesNoHeadTest, RefusesTokensThatCannotBe) {
  const Vocabulary vocabulary(8);
  for (const RerankerTokens& tokens :
       {RerankerTokens{5, 0}, RerankerTokens{0, -1}, RerankerTokens{2, 2}}) {
    EXPECT_EQ(YesNoHead::Load(vocabulary.view, tokens, at::kCPU).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace canopy
