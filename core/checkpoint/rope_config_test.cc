#include "core/checkpoint/rope_config.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// Reads the config of a model with 512 positions and without a default theta.
absl::StatusOr<RopeConfig> Read(const std::string& config) {
  const json document = json::parse(config);
  std::vector<std::string> ignored;
  return ReadRopeConfig(ConfigReader(document), {512, 0}, &ignored);
}

// Returns the ignored keys, joined, or the message of the error.
std::string Ignored(const std::string& config) {
  const json document = json::parse(config);
  std::vector<std::string> ignored;
  const auto rope = ReadRopeConfig(ConfigReader(document), {512, 0}, &ignored);
  return rope.ok() ? absl::StrJoin(ignored, "; ") : std::string(rope.status().message());
}

std::string Error(const std::string& config) {
  const auto rope = Read(config);
  EXPECT_EQ(rope.status().code(), absl::StatusCode::kInvalidArgument) << config;
  return std::string(rope.status().message());
}

TEST(RopeConfigTest, TakesThetaFromAnyPlaceButNeverFromNowhere) {
  EXPECT_EQ(Read(R"({"rope_theta": 5000000})")->theta, 5e6);
  EXPECT_EQ(Read(R"({"rope_theta": 77.5, "rope_parameters": {"rope_type": "default"}})")->theta,
            77.5);
  EXPECT_EQ(Read(R"({"rope_parameters": {"rope_theta": 9}})")->theta, 9);
  EXPECT_EQ(Read(R"({"rope_theta": 9, "rope_scaling": {"type": "default"}})")->theta, 9);
  EXPECT_EQ(Read(R"({"rope_theta": 9, "rope_parameters": {"rope_theta": 9.0}})")->theta, 9);
  for (const std::string config :
       {R"({})", R"({"rope_theta": null})", R"({"rope_parameters": {}})",
        R"({"rope_parameters": {"rope_theta": null}})",
        R"({"rope_parameters": {"rope_type": "default"}})", R"({"rope_scaling": null})"}) {
    EXPECT_EQ(Error(config), "rope_theta (or rope_parameters.rope_theta) is missing") << config;
  }
}

TEST(RopeConfigTest, ReadsLinear) {
  const auto rope = Read(R"({"rope_theta": 9, "rope_scaling": {"type": "linear", "factor": 2}})");
  ASSERT_TRUE(rope.ok()) << rope.status();
  EXPECT_EQ(rope->type, RopeType::kLinear);
  EXPECT_EQ(rope->factor, 2.0);
  EXPECT_EQ(rope->attention_factor, 1.0);
}

TEST(RopeConfigTest, ReadsYarn) {
  const auto plain = Read(R"({"rope_theta": 1000000.0, "rope_scaling": {"type": "yarn",
      "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}})");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->type, RopeType::kYarn);
  EXPECT_EQ(plain->factor, 4.0);
  EXPECT_EQ(plain->original_max_position_embeddings, 128);
  EXPECT_EQ(plain->beta_fast, 32.0);
  EXPECT_EQ(plain->beta_slow, 1.0);
  EXPECT_TRUE(plain->truncate);
  // The expected value is that of transformers 5.17.
  EXPECT_DOUBLE_EQ(plain->attention_factor, 1.138629436111989);

  const auto full = Read(R"({"rope_parameters": {"rope_type": "yarn", "rope_theta": 9,
      "factor": 8.0, "original_max_position_embeddings": 64, "truncate": false, "beta_fast": 16,
      "beta_slow": 2, "mscale": 0.707, "mscale_all_dim": 0.5}})");
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_EQ(full->beta_fast, 16.0);
  EXPECT_EQ(full->beta_slow, 2.0);
  EXPECT_FALSE(full->truncate);
  EXPECT_DOUBLE_EQ(full->attention_factor, 1.0389905150739585);
}

TEST(RopeConfigTest, YarnsAttentionFactorIsThatOfTransformers) {
  const auto factor = [](const std::string& keys) {
    return Read(R"({"rope_parameters": {"rope_type": "yarn", "rope_theta": 9, )" + keys + "}}")
        ->attention_factor;
  };
  EXPECT_EQ(factor(R"("factor": 1)"), 1.0);
  EXPECT_EQ(factor(R"("factor": 4, "attention_factor": 0.75, "mscale": 2)"), 0.75);
  // A single weight has no effect.
  EXPECT_DOUBLE_EQ(factor(R"("factor": 4, "mscale": 2)"), 1.138629436111989);
  EXPECT_DOUBLE_EQ(factor(R"("factor": 4, "mscale_all_dim": 2)"), 1.138629436111989);
}

TEST(RopeConfigTest, ReadsLlama3) {
  const auto rope = Read(R"({"rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3",
      "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 8192}})");
  ASSERT_TRUE(rope.ok()) << rope.status();
  EXPECT_EQ(rope->type, RopeType::kLlama3);
  EXPECT_EQ(rope->factor, 8.0);
  EXPECT_EQ(rope->low_freq_factor, 1.0);
  EXPECT_EQ(rope->high_freq_factor, 4.0);
  EXPECT_EQ(rope->original_max_position_embeddings, 8192);
  EXPECT_EQ(rope->attention_factor, 1.0);
}

// Returns the document `{"rope_theta": 9, "rope_scaling": {"rope_type": TYPE, KEYS}}`.
std::string Scaled(const std::string& type, const std::string& keys) {
  return R"({"rope_theta": 9, "rope_scaling": {"rope_type": ")" + type + "\"" +
         (keys.empty() ? "" : ", " + keys) + "}}";
}

// transformers 5.17 warns about these keys, and computes the same without them.
TEST(RopeConfigTest, IgnoresAndReportsKeysThatTransformersDoesNotReadForTheType) {
  const std::string yarn = R"("factor": 4, "original_max_position_embeddings": 128)";
  // DeepSeek-R1-0528-Qwen3-8B and the YaRN versions of Llama 2 were published with these keys.
  EXPECT_EQ(Ignored(Scaled("yarn", yarn + R"(, "attn_factor": 0.8782488562869419)")),
            "rope_scaling.attn_factor beside type \"yarn\"");
  EXPECT_EQ(Ignored(Scaled("yarn", yarn + R"(, "finetuned": true)")),
            "rope_scaling.finetuned beside type \"yarn\"");
  EXPECT_EQ(Ignored(Scaled("linear", yarn + R"(, "beta_fast": 3)")),
            "rope_scaling.beta_fast beside type \"linear\"; "
            "rope_scaling.original_max_position_embeddings beside type \"linear\"");
  EXPECT_EQ(Ignored(Scaled("default", R"("original_max_position_embeddings": 128)")),
            "rope_scaling.original_max_position_embeddings beside type \"default\"");
  EXPECT_EQ(Ignored(Scaled("yarn", yarn)), "");
  const auto with = Read(Scaled("yarn", yarn + R"(, "attn_factor": 0.5)"));
  const auto without = Read(Scaled("yarn", yarn));
  ASSERT_TRUE(with.ok()) << with.status();
  EXPECT_EQ(with->attention_factor, without->attention_factor);
}

TEST(RopeConfigTest, TheLengthBeforeStretchingMayStandOutside) {
  const auto outside = Read(R"({"rope_theta": 9, "original_max_position_embeddings": 64,
                                "rope_scaling": {"rope_type": "yarn", "factor": 2}})");
  ASSERT_TRUE(outside.ok()) << outside.status();
  EXPECT_EQ(outside->original_max_position_embeddings, 64);
}

TEST(RopeConfigTest, UsesTheFamilysThetaOnlyIfTheConfigHasNone) {
  const auto theta = [](const std::string& config) {
    const json document = json::parse(config);
    std::vector<std::string> ignored;
    return ReadRopeConfig(ConfigReader(document), {512, 10000}, &ignored)->theta;
  };
  EXPECT_EQ(theta("{}"), 10000);
  EXPECT_EQ(theta(R"({"rope_scaling": {"type": "linear", "factor": 2}})"), 10000);
  EXPECT_EQ(theta(R"({"rope_theta": 9})"), 9);
  EXPECT_EQ(theta(R"({"rope_parameters": {"rope_theta": 9}})"), 9);
}

TEST(RopeConfigTest, PathsMayBeAsLongAsTheStretchedPositions) {
  const auto longest = [](const std::string& config, int64_t positions) {
    return LongestPath(*Read(config), positions);
  };
  EXPECT_EQ(longest(R"({"rope_theta": 9})", 512), 512);
  // Qwen2.5's published recipe leaves max_position_embeddings unchanged.
  const std::string yarn =
      Scaled("yarn", R"("factor": 4, "original_max_position_embeddings": 512)");
  EXPECT_EQ(longest(yarn, 512), 2048);
  EXPECT_EQ(longest(yarn, 2048), 2048);
  EXPECT_EQ(longest(yarn, 4096), 4096);
  EXPECT_EQ(longest(Scaled("linear", R"("factor": 2.5)"), 512), 1280);
  EXPECT_EQ(longest(Scaled("linear", R"("factor": 1e6)"), 1 << 20), kMaxPositions);
  EXPECT_EQ(longest(Scaled("llama3", R"("factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
                                        "original_max_position_embeddings": 512)"),
                    1024),
            1024);
}

TEST(RopeConfigTest, NamesWhatItRefuses) {
  const std::string llama3 = R"("factor": 8, "high_freq_factor": 4, "low_freq_factor": )";
  for (
      const auto& [config, message] : std::vector<std::pair<std::string, std::string>>{
          {R"({"rope_theta": 9, "rope_parameters": {"rope_theta": 10}})",
           "rope_parameters.rope_theta: 10.0"},
          {R"({"rope_theta": "9"})", "rope_theta: \"9\""},
          {R"({"rope_theta": 0})", "rope_theta: 0"},
          {R"({"rope_theta": -1})", "rope_theta: -1"},
          {R"({"rope_theta": 1e300})", "rope_theta: 1e+300"},
          {Scaled("dynamic", R"("factor": 2)"), "rope_scaling.rope_type: \"dynamic\""},
          {Scaled("longrope", ""), "rope_scaling.rope_type: \"longrope\""},
          {R"({"rope_theta": 9, "rope_scaling": {"type": "mrope"}})",
           "rope_scaling.type: \"mrope\""},
          {R"({"rope_theta": 9, "rope_scaling": {"type": "yarn", "rope_type": "default"}})",
           "rope_scaling.type: \"yarn\""},
          {R"({"rope_theta": 9, "rope_scaling": {"rope_type": 3}})", "rope_scaling.rope_type: 3"},
          {R"({"rope_theta": 9, "rope_scaling": "default"})", "rope_scaling: \"default\""},
          {R"({"rope_theta": 9, "rope_scaling": {"type": "linear", "factor": 2}, "rope_parameters": {}})",
           "either rope_parameters or rope_scaling"},
          {R"({"rope_parameters": {"rope_theta": 9, "factor": 4.0}})",
           "rope_parameters.factor: 4.0"},
          {R"({"rope_parameters": {"rope_theta": 9, "partial_rotary_factor": 0.5}})",
           "rope_parameters.partial_rotary_factor: 0.5"},
          {R"({"rope_parameters": {"full_attention": {"rope_theta": 9}}})",
           "rope_parameters.full_attention: {\"rope_theta\":9}"},
          {R"({"rope_parameters": [9]})", "rope_parameters: [9]"},
          {Scaled("linear", ""), "rope_scaling.factor is missing"},
          {Scaled("linear", R"("factor": 0.5)"), "rope_scaling.factor: 0.5"},
          {Scaled("linear", R"("factor": "2")"), "rope_scaling.factor: \"2\""},
          {Scaled("yarn", ""), "rope_scaling.factor is missing"},
          {Scaled("yarn", R"("factor": 2, "truncate": 1)"), "rope_scaling.truncate: 1"},
          {Scaled("yarn", R"("factor": 2, "attention_factor": 0)"),
           "rope_scaling.attention_factor: 0"},
          {Scaled("yarn", R"("factor": 2, "beta_fast": 0.5)"), "rope_scaling.beta_fast: 0.5"},
          {Scaled("yarn", R"("factor": 2, "original_max_position_embeddings": 1.5)"),
           "rope_scaling.original_max_position_embeddings: 1.5"},
          {R"({"rope_theta": 1, "rope_scaling": {"rope_type": "yarn", "factor": 2}})",
           "rope_scaling.rope_theta: 1.0"},
          {R"({"rope_theta": 9, "original_max_position_embeddings": 64,
                "rope_scaling": {"rope_type": "yarn", "factor": 2,
                                 "original_max_position_embeddings": 65}})",
           "rope_scaling.original_max_position_embeddings: 65"},
          {Scaled("llama3", R"("factor": 8, "high_freq_factor": 4)"),
           "rope_scaling.low_freq_factor is missing"},
          {Scaled("llama3", R"("factor": 8, "low_freq_factor": 1)"),
           "rope_scaling.high_freq_factor is missing"},
          {Scaled("llama3", llama3 + "4"), "rope_scaling.high_freq_factor: 4.0"},
          {Scaled("llama3", llama3 + "1, \"trunkate\": true"), "rope_scaling.trunkate: true"},
          {Scaled("yarn", R"("factor": 2, "beta_fats": 3)"), "rope_scaling.beta_fats: 3"},
      }) {
    EXPECT_THAT(Error(config), HasSubstr(message)) << config;
  }
}

}  // namespace
}  // namespace canopy
