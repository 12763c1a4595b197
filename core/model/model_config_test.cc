#include "core/model/model_config.h"

#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/model/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// As transformers 5 writes it.
constexpr char kTransformers5[] = R"({
  "architectures": ["Qwen3ForCausalLM"], "attention_bias": true, "attention_dropout": 0.0,
  "bos_token_id": null, "dtype": "float32", "eos_token_id": null, "head_dim": 8,
  "hidden_act": "silu", "hidden_size": 16, "initializer_range": 0.02, "intermediate_size": 24,
  "layer_types": ["full_attention", "full_attention"], "max_position_embeddings": 64,
  "max_window_layers": 28, "model_type": "qwen3", "num_attention_heads": 4, "num_hidden_layers": 2,
  "num_key_value_heads": 2, "pad_token_id": null, "rms_norm_eps": 1e-06,
  "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}, "sliding_window": null,
  "tie_word_embeddings": false, "transformers_version": "5.17.0", "use_cache": true,
  "use_sliding_window": false, "vocab_size": 50})";

// As published with the 0.6B model.
constexpr char kPublished[] = R"({
  "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu",
  "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 3072,
  "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3",
  "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null,
  "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.51.0",
  "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})";

// kTransformers5 with one key replaced, or removed when `value` is empty.
std::string With(const std::string& key, const std::string& value) {
  json config = json::parse(kTransformers5);
  if (value.empty()) {
    config.erase(key);
  } else {
    config[key] = json::parse(value);
  }
  return config.dump();
}

absl::StatusOr<ModelConfig> ParseWith(const std::string& key, const std::string& value) {
  return ParseModelConfig(With(key, value));
}

TEST(ModelConfigTest, ReadsTheDialectOfTransformers5) {
  const auto config = ParseModelConfig(kTransformers5);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->architecture, Architecture::kQwen3ForCausalLM);
  EXPECT_EQ(config->vocab_size, 50);
  EXPECT_EQ(config->hidden_size, 16);
  EXPECT_EQ(config->intermediate_size, 24);
  EXPECT_EQ(config->num_layers, 2);
  EXPECT_EQ(config->num_query_heads, 4);
  EXPECT_EQ(config->num_kv_heads, 2);
  EXPECT_EQ(config->head_dim, 8);
  EXPECT_EQ(config->query_size(), 32);
  EXPECT_EQ(config->kv_size(), 16);
  EXPECT_EQ(config->max_position_embeddings, 64);
  EXPECT_EQ(config->rms_norm_eps, 1e-6);
  EXPECT_EQ(config->rope_theta, 1e4);
  EXPECT_FALSE(config->tie_word_embeddings);
  EXPECT_TRUE(config->attention_bias);
  EXPECT_EQ(config->num_labels, 0);
}

TEST(ModelConfigTest, ReadsThePublishedDialect) {
  const auto config = ParseModelConfig(kPublished);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->vocab_size, 151936);
  EXPECT_EQ(config->num_layers, 28);
  EXPECT_EQ(config->head_dim, 128);
  EXPECT_EQ(config->rope_theta, 1e6);
  EXPECT_TRUE(config->tie_word_embeddings);
  EXPECT_FALSE(config->attention_bias);
}

TEST(ModelConfigTest, KnowsThreeArchitectures) {
  for (const auto architecture : {Architecture::kQwen3Model, Architecture::kQwen3ForCausalLM,
                                  Architecture::kQwen3ForSequenceClassification}) {
    const std::string name(ArchitectureName(architecture));
    const auto config = ParseWith("architectures", "[\"" + name + "\"]");
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->architecture, architecture) << name;
  }
}

// Expected values: transformers' num_labels for the same keys.
TEST(ModelConfigTest, CountsLabelsAsTransformersDoes) {
  const auto labels = [](const std::string& extra) -> absl::StatusOr<int64_t> {
    json config = json::parse(kTransformers5);
    config["architectures"] = {"Qwen3ForSequenceClassification"};
    config.update(json::parse(extra));
    const auto parsed = ParseModelConfig(config.dump());
    if (!parsed.ok()) {
      return parsed.status();
    }
    return parsed->num_labels;
  };
  EXPECT_EQ(*labels("{}"), 2);
  EXPECT_EQ(*labels(R"({"id2label": {"0": "LABEL_0"}})"), 1);
  EXPECT_EQ(*labels(R"({"id2label": {"0": "a", "1": "b", "2": "c"}})"), 3);
  EXPECT_EQ(*labels(R"({"num_labels": 5})"), 5);
  EXPECT_EQ(*labels(R"({"num_labels": 1, "id2label": {"0": "x"}})"), 1);
  EXPECT_THAT(labels(R"({"num_labels": 5, "id2label": {"0": "x"}})").status().message(),
              HasSubstr("num_labels: 5 contradicts id2label with 1"));
  EXPECT_FALSE(labels(R"({"id2label": {}})").ok());
  EXPECT_FALSE(labels(R"({"id2label": ["a"]})").ok());
  EXPECT_FALSE(labels(R"({"num_labels": 0})").ok());
}

TEST(ModelConfigTest, TakesRopeThetaFromAnyPlaceButNeverFromNowhere) {
  const auto theta = [](const std::string& keys) -> absl::StatusOr<double> {
    json config = json::parse(kTransformers5);
    config.erase("rope_parameters");
    config.update(json::parse(keys));
    const auto parsed = ParseModelConfig(config.dump());
    if (!parsed.ok()) {
      return parsed.status();
    }
    return parsed->rope_theta;
  };
  EXPECT_EQ(*theta(R"({"rope_theta": 5000000})"), 5e6);
  EXPECT_EQ(*theta(R"({"rope_theta": 77.5, "rope_parameters": {"rope_type": "default"}})"), 77.5);
  EXPECT_EQ(*theta(R"({"rope_parameters": {"rope_theta": 9}})"), 9);
  EXPECT_EQ(*theta(R"({"rope_theta": 9, "rope_scaling": {"type": "default"}})"), 9);
  EXPECT_EQ(*theta(R"({"rope_theta": 9, "rope_parameters": {"rope_theta": 9.0}})"), 9);
  for (const std::string keys :
       {R"({})", R"({"rope_theta": null})", R"({"rope_parameters": {}})",
        R"({"rope_parameters": {"rope_type": "default"}})", R"({"rope_scaling": null})"}) {
    EXPECT_THAT(theta(keys).status().message(), HasSubstr("rope_theta")) << keys;
    EXPECT_THAT(theta(keys).status().message(), HasSubstr("is missing")) << keys;
  }
  for (const auto& [keys, message] : std::vector<std::pair<std::string, std::string>>{
           {R"({"rope_theta": 9, "rope_parameters": {"rope_theta": 10}})",
            "rope_parameters.rope_theta: 10 contradicts rope_theta 9"},
           {R"({"rope_theta": "9"})", "rope_theta: \"9\""},
           {R"({"rope_theta": 0})", "rope_theta: 0"},
           {R"({"rope_theta": -1})", "rope_theta: -1"},
           {R"({"rope_theta": 1e300})", "rope_theta: 1e+300"},
           {R"({"rope_parameters": {"rope_theta": null}})", "rope_parameters.rope_theta: null"},
           {R"({"rope_theta": 9, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}})",
            "rope_scaling.rope_type: \"yarn\""},
           {R"({"rope_theta": 9, "rope_scaling": {"type": "linear", "factor": 2}})",
            "rope_scaling.type: \"linear\""},
           {R"({"rope_parameters": {"rope_theta": 9, "rope_type": "llama3"}})",
            "rope_parameters.rope_type: \"llama3\""},
           {R"({"rope_theta": 9, "rope_scaling": "default"})", "rope_scaling: \"default\""},
           {R"({"rope_parameters": {"rope_theta": 9, "factor": 4.0}})",
            "rope_parameters.factor: 4.0"},
           {R"({"rope_parameters": {"rope_theta": 9, "partial_rotary_factor": 0.5}})",
            "rope_parameters.partial_rotary_factor: 0.5"},
           {R"({"rope_theta": 9, "partial_rotary_factor": 0.5})", "partial_rotary_factor: 0.5"},
           {R"({"rope_parameters": {"full_attention": {"rope_theta": 9}}})",
            "rope_parameters.full_attention: {\"rope_theta\":9}"},
           {R"({"rope_parameters": [9]})", "rope_parameters: [9]"},
       }) {
    EXPECT_EQ(theta(keys).status().code(), absl::StatusCode::kInvalidArgument) << keys;
    EXPECT_THAT(theta(keys).status().message(), HasSubstr(message)) << keys;
  }
}

TEST(ModelConfigTest, DerivesAMissingHeadDim) {
  EXPECT_EQ(ParseWith("head_dim", "")->head_dim, 4);
  EXPECT_EQ(ParseWith("head_dim", "null")->head_dim, 4);
  json config = json::parse(kTransformers5);
  config.erase("head_dim");
  config["hidden_size"] = 18;
  EXPECT_THAT(ParseModelConfig(config.dump()).status().message(), HasSubstr("head_dim is missing"));
  config["hidden_size"] = 12;  // 12 / 4 heads = 3
  EXPECT_THAT(ParseModelConfig(config.dump()).status().message(), HasSubstr("head_dim: 3"));
  config["hidden_size"] = 131072;
  EXPECT_THAT(ParseModelConfig(config.dump()).status().message(), HasSubstr("head_dim: 32768"));
}

TEST(ModelConfigTest, NamesWhatItRefuses) {
  struct Case {
    std::string key, value, message;
  };
  for (const Case& refused : std::vector<Case>{
           {"model_type", "\"qwen3_moe\"", "model_type: \"qwen3_moe\""},
           {"model_type", "3", "model_type: 3"},
           {"model_type", "", "model_type is missing"},
           {"architectures", "[\"LlamaForCausalLM\"]", "architectures: [\"LlamaForCausalLM\"]"},
           {"architectures", "[\"Qwen3Model\",\"Qwen3Model\"]", "architectures: "},
           {"architectures", "[[\"Qwen3Model\"]]", "architectures: "},
           {"architectures", "\"Qwen3Model\"", "architectures: \"Qwen3Model\""},
           {"architectures", "[]", "architectures: []"},
           {"architectures", "null", "architectures is missing"},
           {"use_sliding_window", "true", "use_sliding_window: true"},
           {"use_sliding_window", "1", "use_sliding_window: 1"},
           {"layer_types", "[\"full_attention\",\"sliding_attention\"]",
            "layer_types[1]: \"sliding_attention\""},
           {"layer_types", "[\"full_attention\"]", "a list of 2"},
           {"layer_types", "{}", "layer_types: {}"},
           {"layer_types", "[1,2]", "layer_types[0]: 1"},
           {"hidden_act", "\"gelu\"", "hidden_act: \"gelu\""},
           {"is_causal", "false", "is_causal: false"},
           {"use_bidirectional_attention", "true", "use_bidirectional_attention: true"},
           {"quantization_config", "{\"quant_method\":\"fp8\"}",
            "quantization_config: {\"quant_method\":\"fp8\"}"},
           {"attention_bias", "\"yes\"", "attention_bias: \"yes\""},
           {"tie_word_embeddings", "0", "tie_word_embeddings: 0"},
           {"head_dim", "7", "head_dim: 7"},
           {"head_dim", "1026", "head_dim: 1026"},
           {"num_key_value_heads", "3", "not a multiple of num_key_value_heads 3"},
           {"num_key_value_heads", "8", "not a multiple of num_key_value_heads 8"},
           {"rms_norm_eps", "0", "rms_norm_eps: 0"},
           {"rms_norm_eps", "-1e-6", "rms_norm_eps: -1e-06"},
           {"rms_norm_eps", "\"1e-6\"", "rms_norm_eps: \"1e-6\""},
           {"rms_norm_eps", "2", "rms_norm_eps: 2"},
           {"rms_norm_eps", "", "rms_norm_eps is missing"},
       }) {
    const auto config = ParseWith(refused.key, refused.value);
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument)
        << refused.key << " " << refused.value;
    EXPECT_THAT(config.status().message(), HasSubstr(refused.message));
  }
}

TEST(ModelConfigTest, BoundsEverySize) {
  for (const std::string key :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "num_key_value_heads", "max_position_embeddings"}) {
    for (const std::string value :
         {"0", "-1", "16.0", "\"16\"", "true", "[16]", "{}", "16777217", "9223372036854775807",
          "9223372036854775808", "18446744073709551615", "18446744073709551616", "-0", "1e3"}) {
      const auto config = ParseWith(key, value);
      EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << key << " " << value;
      EXPECT_THAT(config.status().message(), HasSubstr(key + ": ")) << value;
    }
    EXPECT_THAT(ParseWith(key, "").status().message(), HasSubstr(key + " is missing"));
    EXPECT_THAT(ParseWith(key, "null").status().message(), HasSubstr(key + " is missing"));
  }
}

TEST(ModelConfigTest, RefusesHostileDocuments) {
  EXPECT_THAT(ParseModelConfig("[]").status().message(), HasSubstr("not a JSON object"));
  const std::string good = kTransformers5;
  for (const std::string& text : {
           std::string(), std::string("[]"), std::string("null"), std::string("3"),
           std::string("{}"), good + good, good.substr(0, good.size() - 1), "\xff" + good,
           std::string(100'000, '['), std::string(int64_t{5} << 20, ' ') + good,
           "{\"vocab_size\":50," + good.substr(1),         // Duplicate key.
           "{\"extra\":NaN," + good.substr(1),             //
           "{\"extra\":1e999," + good.substr(1),           //
           "{\"extra\":" + std::string(1000, '[') + good,  //
       }) {
    EXPECT_EQ(ParseModelConfig(text).status().code(), absl::StatusCode::kInvalidArgument)
        << text.substr(0, 60);
  }
}

// Whatever the bytes, an answer in finite time and no sanitizer report.
TEST(ModelConfigTest, SurvivesRandomDamage) {
  std::mt19937 random(20240917);
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string text = round % 2 == 0 ? kTransformers5 : kPublished;
    for (int edit = 0; edit < 3; ++edit) {
      text[random() % text.size()] = static_cast<char>("0\"{}[]:,-9e.x\xff"[random() % 14]);
    }
    refused += ParseModelConfig(text).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 2500);
}

TEST(LoadModelConfigTest, TakesAFileOrAFolderAndNamesIt) {
  const TemporaryFolder folder;
  EXPECT_EQ(LoadModelConfig(folder.path()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(LoadModelConfig(folder.Join("other.json")).status().code(),
            absl::StatusCode::kNotFound);
  const std::string file = folder.Write("config.json", kPublished);
  EXPECT_EQ(LoadModelConfig(folder.path())->hidden_size, 1024);
  EXPECT_EQ(LoadModelConfig(file)->hidden_size, 1024);
  EXPECT_EQ(LoadModelConfig(file + "/x").status().code(), absl::StatusCode::kNotFound);
  folder.Write("config.json", "");
  const auto empty = LoadModelConfig(folder.path());
  EXPECT_EQ(empty.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(empty.status().message(), HasSubstr(file));
}

TEST(LoadModelConfigTest, DoesNotWaitForAPipe) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo(folder.Join("config.json").c_str(), 0600), 0);
  EXPECT_EQ(LoadModelConfig(folder.path()).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace canopy
