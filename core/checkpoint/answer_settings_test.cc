#include "core/checkpoint/answer_settings.h"

#include <functional>
#include <map>
#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "core/checkpoint/config_fields.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// Collects the names of the members that VisitFields passes to Setting and to InTensors.
struct NameCollector {
  template <typename Value>
  void Setting(absl::string_view name, const Value& /*value*/) {
    settings.emplace(name);
  }
  template <typename Value>
  void InTensors(absl::string_view name, const Value& /*value*/) {
    in_tensors.emplace(name);
  }

  std::set<std::string> settings;
  std::set<std::string> in_tensors;
};

NameCollector ConfigNames() {
  NameCollector names;
  VisitFields(ModelConfig(), names);
  return names;
}

// Returns, by the name of the setting, a function that changes the setting's member.
const std::map<std::string, std::function<void(ModelConfig*)>>& ConfigChanges() {
  static const auto* const changes = new std::map<std::string, std::function<void(ModelConfig*)>>{
      {"head", [](ModelConfig* config) { config->head = ModelHead::kClassifier; }},
      {"num_layers", [](ModelConfig* config) { config->num_layers = 3; }},
      {"num_query_heads", [](ModelConfig* config) { config->num_query_heads = 6; }},
      {"max_position_embeddings",
       [](ModelConfig* config) { config->max_position_embeddings = 1'000; }},
      {"rms_norm_eps", [](ModelConfig* config) { config->rms_norm_eps = 1e-5; }},
      {"rope.type", [](ModelConfig* config) { config->rope.type = RopeType::kLlama3; }},
      {"rope.theta", [](ModelConfig* config) { config->rope.theta = 1e6; }},
      {"rope.factor", [](ModelConfig* config) { config->rope.factor = 4.0; }},
      {"rope.original_max_position_embeddings",
       [](ModelConfig* config) { config->rope.original_max_position_embeddings = 64; }},
      {"rope.beta_fast", [](ModelConfig* config) { config->rope.beta_fast = 16.0; }},
      {"rope.beta_slow", [](ModelConfig* config) { config->rope.beta_slow = 2.0; }},
      {"rope.truncate", [](ModelConfig* config) { config->rope.truncate = false; }},
      {"rope.attention_factor", [](ModelConfig* config) { config->rope.attention_factor = 1.25; }},
      {"rope.low_freq_factor", [](ModelConfig* config) { config->rope.low_freq_factor = 2.0; }},
      {"rope.high_freq_factor", [](ModelConfig* config) { config->rope.high_freq_factor = 8.0; }},
      {"sliding_window", [](ModelConfig* config) { config->sliding_window = 32; }},
      {"sliding_layers",
       [](ModelConfig* config) {
         config->sliding_layers = {false, true};
       }},
      {"experts.experts_per_token",
       [](ModelConfig* config) { config->experts.experts_per_token = 2; }},
      {"experts.normalize_weights",
       [](ModelConfig* config) { config->experts.normalize_weights = true; }},
  };
  return *changes;
}

TEST(AnswerSettingsTest, EveryConfigSettingHasATestedChange) {
  std::set<std::string> tested;
  for (const auto& [name, change] : ConfigChanges()) {
    tested.insert(name);
  }
  EXPECT_EQ(ConfigNames().settings, tested);
}

TEST(AnswerSettingsTest, ChangingAConfigSettingChangesThatSettingAlone) {
  for (const auto& [name, change] : ConfigChanges()) {
    AnswerSettings settings;
    EXPECT_TRUE(NonDefaultSettings(settings).empty());
    change(&settings.config);
    const auto changed = NonDefaultSettings(settings);
    ASSERT_EQ(changed.size(), 1U) << name;
    EXPECT_EQ(changed.begin()->first, name);
  }
}

TEST(AnswerSettingsTest, WhatTheTensorsSayIsLeftToThem) {
  EXPECT_EQ(
      ConfigNames().in_tensors,
      (std::set<std::string>{"architecture", "experts.intermediate_size", "experts.num_experts",
                             "experts.sparse_layers", "head_dim", "hidden_size",
                             "intermediate_size", "num_kv_heads", "num_labels", "output_bias",
                             "qk_norm", "qkv_bias", "tie_word_embeddings", "vocab_size"}));
  AnswerSettings settings;
  settings.config.head_dim = 64;
  settings.config.tie_word_embeddings = true;
  EXPECT_TRUE(NonDefaultSettings(settings).empty());
}

TEST(AnswerSettingsTest, ValuesAreWrittenInOneForm) {
  AnswerSettings settings;
  settings.config.num_layers = 28;
  settings.config.rms_norm_eps = 1e-6;
  settings.config.rope.type = RopeType::kYarn;
  settings.config.rope.truncate = false;
  settings.config.sliding_layers = {true, false, true};
  EXPECT_THAT(NonDefaultSettings(settings),
              ElementsAre(Pair("num_layers", "28"), Pair("rms_norm_eps", "3eb0c6f7a0b5ed8d"),
                          Pair("rope.truncate", "false"), Pair("rope.type", "yarn"),
                          Pair("sliding_layers", "0,2")));
}

TEST(AnswerSettingsTest, ALogarithmsLastBitIsNoOtherSetting) {
  AnswerSettings settings;
  settings.config.rope.attention_factor = 1.138629436111989;
  const auto plain = NonDefaultSettings(settings);
  settings.config.rope.attention_factor = 1.1386294361119892;
  EXPECT_EQ(NonDefaultSettings(settings), plain);
  EXPECT_EQ(plain.size(), 1U);
}

TEST(AnswerSettingsTest, AHeadWithoutTensorsIsNone) {
  AnswerSettings settings;
  settings.config.head = ModelHead::kLanguageModel;
  EXPECT_EQ(NonDefaultSettings(settings).size(), 1U);
  settings.lacks_lm_head = true;
  EXPECT_TRUE(NonDefaultSettings(settings).empty());
}

TEST(AnswerSettingsTest, HeadsAndTheirFilesAreSettings) {
  AnswerSettings settings;
  settings.config.head = ModelHead::kLanguageModel;
  settings.temperatures = {2, 0.5, 1};
  settings.reranker = RerankerTokens{9693, 0};
  EXPECT_THAT(NonDefaultSettings(settings),
              ElementsAre(Pair("head", "language_model"), Pair("reranker.no_token", "0"),
                          Pair("reranker.yes_token", "9693"),
                          Pair("temperature.boolean", "4000000000000000"),
                          Pair("temperature.choice", "3fe0000000000000")));
  settings.temperatures = {1, 1, 3};
  settings.reranker.reset();
  // The decision head replaces the head that the config names.
  settings.has_decision_head = true;
  EXPECT_THAT(NonDefaultSettings(settings),
              ElementsAre(Pair("head", "decision"), Pair("temperature.score", "4008000000000000")));
}

}  // namespace
}  // namespace canopy
