#include "kernels/reference/tree_attention_reference.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace canopy::kernels::reference {
namespace {

// Values are 1, 10, 100, ..., so that the digits of a sum show which tokens were read.
TreeAttentionInput DecimalInput(std::vector<int32_t> exit) {
  TreeAttentionInput input;
  double value = 1;
  for (size_t i = 0; i < exit.size(); ++i) {
    input.q.push_back(0);
    input.k.push_back(static_cast<double>(i));
    input.v.push_back(value);
    value *= 10;
  }
  input.exit = std::move(exit);
  input.num_query_heads = 1;
  input.num_kv_heads = 1;
  input.head_dim = 1;
  input.scale = 1;
  return input;
}

TEST(TreeAttentionReference, ATokenReadsItselfAndItsAncestorsOnly) {
  // The trees are 0 - 1 - 2 with 0 - 3 - 4, and a single token 5.
  const TreeAttentionOutput output = TreeAttention(DecimalInput({4, 2, 2, 4, 4, 5}));
  const double expected[] = {1, 11 / 2.0, 111 / 3.0, 1001 / 2.0, 11001 / 3.0, 100000};
  const double depth[] = {1, 2, 3, 2, 3, 1};
  for (int i = 0; i < 6; ++i) {
    EXPECT_NEAR(output.out[i], expected[i], 1e-9) << i;
    EXPECT_NEAR(output.log_sum_exp[i], std::log(depth[i]), 1e-12) << i;
  }
}

TEST(TreeAttentionReference, WeightsKeysByTheSoftmaxOfScaledScores) {
  TreeAttentionInput input = DecimalInput({1, 1});
  input.q = {0, 2};
  input.scale = 0.5;
  const TreeAttentionOutput output = TreeAttention(input);
  const double e = std::exp(1.0);
  EXPECT_NEAR(output.out[1], (1 + 10 * e) / (1 + e), 1e-12);
  EXPECT_NEAR(output.log_sum_exp[1], std::log(1 + e), 1e-12);
}

TEST(TreeAttentionReference, QueryHeadsShareTheirGroupsKeys) {
  TreeAttentionInput input;
  input.exit = {0};
  input.q = {1, 1, 1, 1};
  input.k = {1, 1};
  input.v = {7, 8};
  input.num_query_heads = 4;
  input.num_kv_heads = 2;
  input.head_dim = 1;
  input.scale = 1;
  EXPECT_EQ(TreeAttention(input).out, (std::vector<double>{7, 7, 8, 8}));
}

}  // namespace
}  // namespace canopy::kernels::reference
