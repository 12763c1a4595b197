#include "core/checkpoint/synthetic.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/checkpoint/weight_schema.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

ModelConfig SmallConfig() {
  ModelConfig config;
  config.head = ModelHead::kClassifier;
  config.qk_norm = true;
  config.vocab_size = 4096;
  config.hidden_size = 256;
  config.intermediate_size = 512;
  config.num_layers = 2;
  config.num_query_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 64;
  config.qkv_bias = config.output_bias = true;
  config.num_labels = 1;
  return config;
}

std::vector<float> Values(const TensorView& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

double Mean(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) {
    sum += value;
  }
  return sum / static_cast<double>(values.size());
}

// Returns the central moment of this order.
double Moment(const std::vector<float>& values, int order) {
  const double mean = Mean(values);
  double sum = 0;
  for (const float value : values) {
    sum += std::pow(value - mean, order);
  }
  return sum / static_cast<double>(values.size());
}

TEST(SyntheticTest, FitsTheSchema) {
  const auto source = MakeSyntheticWeights(SmallConfig());
  ASSERT_TRUE(source.ok()) << source.status();
  const auto map = MatchWeights(*source, SmallConfig());
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->tensors.size(), 33U);
  EXPECT_EQ(source->total_bytes(), 4 * CountParameters(SmallConfig()));
}

TEST(SyntheticTest, ValuesAreNormal) {
  const auto source = MakeSyntheticWeights(SmallConfig());
  ASSERT_TRUE(source.ok());
  const std::vector<float> values = Values(*source->Find("embed_tokens.weight"));  // 2^20 values
  EXPECT_NEAR(Mean(values), 0.0, 5 * 0.02 / 1024);
  const double deviation = std::sqrt(Moment(values, 2));
  EXPECT_NEAR(deviation, 0.02, 1e-4);
  EXPECT_NEAR(Moment(values, 3) / std::pow(deviation, 3), 0.0, 0.02);
  EXPECT_NEAR(Moment(values, 4) / std::pow(deviation, 4), 3.0, 0.15);
  // The normal distribution has these fractions within 1, 2 and 3 standard deviations.
  for (const auto& [bound, share] : {std::pair{1, 0.6827}, {2, 0.9545}, {3, 0.9973}}) {
    const auto inside = std::count_if(values.begin(), values.end(), [bound = bound](float value) {
      return std::fabs(value) < 0.02F * static_cast<float>(bound);
    });
    EXPECT_NEAR(static_cast<double>(inside) / static_cast<double>(values.size()), share, 0.008);
  }
  double neighbours = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    neighbours += static_cast<double>(values[i]) * values[i - 1];
  }
  EXPECT_LT(std::fabs(neighbours / (deviation * deviation * 1e6)), 0.005);
}

TEST(SyntheticTest, NormsAreNearOne) {
  const auto source = MakeSyntheticWeights(SmallConfig());
  for (const char* name :
       {"norm.weight", "layers.1.input_layernorm.weight",
        "layers.0.post_attention_layernorm.weight", "layers.0.self_attn.q_norm.weight"}) {
    const std::vector<float> values = Values(*source->Find(name));
    EXPECT_NEAR(Mean(values), 1.0, 0.01) << name;
    EXPECT_NEAR(std::sqrt(Moment(values, 2)), 1.0 / 64, 0.005) << name;
  }
}

// The expected values come from a Python implementation of the documented generator.
TEST(SyntheticTest, BitsAreThoseOfTheDocumentedGenerator) {
  const auto source = MakeSyntheticWeights(SmallConfig(), 7);
  const std::vector<float> values = Values(*source->Find("score.weight"));
  EXPECT_EQ(values[0], -0.0026983642F);
  EXPECT_EQ(values[1], -0.0329602025F);
  EXPECT_EQ(values[255], -0.0121853631F);
  EXPECT_EQ(Values(*source->Find("norm.weight"))[3], 0.992733717F);
}

TEST(SyntheticTest, SeedNameAndNothingElseDecide) {
  const auto first = MakeSyntheticWeights(SmallConfig(), 1);
  const auto again = MakeSyntheticWeights(SmallConfig(), 1);
  const auto other = MakeSyntheticWeights(SmallConfig(), 2);
  ASSERT_EQ(first->tensors().size(), again->tensors().size());
  for (const TensorView& tensor : first->tensors()) {
    EXPECT_EQ(tensor.bytes, again->Find(tensor.name)->bytes) << tensor.name;
    EXPECT_NE(tensor.bytes, other->Find(tensor.name)->bytes) << tensor.name;
  }
  EXPECT_NE(Values(*first->Find("layers.0.self_attn.k_proj.weight")),
            Values(*first->Find("layers.0.self_attn.v_proj.weight")));
  ModelConfig deeper = SmallConfig();
  deeper.num_layers = 3;
  const auto more = MakeSyntheticWeights(deeper, 1);
  EXPECT_EQ(first->Find("norm.weight")->bytes, more->Find("norm.weight")->bytes);
}

TEST(SyntheticTest, RefusesMoreThanTheLimitBeforeAllocating) {
  ModelConfig huge = SmallConfig();
  huge.vocab_size = 1 << 24;
  huge.hidden_size = 1 << 17;
  const auto refused = MakeSyntheticWeights(huge);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.status().message(), ::testing::HasSubstr("exceed 40000000000"));
  const int64_t bytes = 4 * CountParameters(SmallConfig());
  EXPECT_TRUE(MakeSyntheticWeights(SmallConfig(), 0, bytes).ok());
  EXPECT_FALSE(MakeSyntheticWeights(SmallConfig(), 0, bytes - 1).ok());
}

}  // namespace
}  // namespace canopy
