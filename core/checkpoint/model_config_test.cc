#include "core/checkpoint/model_config.h"

#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "core/checkpoint/testing/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// A config as transformers 5 writes it.
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

// The config that was published with the 0.6B model.
constexpr char kPublished[] = R"({
  "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu",
  "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 3072,
  "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3",
  "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null,
  "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.51.0",
  "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})";

// Returns kTransformers5 with one key replaced, or removed if `value` is empty.
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

// Returns kTransformers5 for another family, with the head of a language model.
json OfFamily(const std::string& model_type, const std::string& class_prefix) {
  json config = json::parse(kTransformers5);
  config["model_type"] = model_type;
  config["architectures"] = {class_prefix + "ForCausalLM"};
  if (model_type == "qwen3_moe") {
    config.update({{"num_experts", 6},
                   {"num_experts_per_tok", 2},
                   {"moe_intermediate_size", 8},
                   {"norm_topk_prob", true}});
  }
  return config;
}

TEST(ModelConfigTest, ReadsTheDialectOfTransformers5) {
  const auto config = ParseModelConfig(kTransformers5);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->architecture, "Qwen3ForCausalLM");
  EXPECT_EQ(config->head, ModelHead::kLanguageModel);
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
  EXPECT_EQ(config->rope.theta, 1e4);
  EXPECT_FALSE(config->tie_word_embeddings);
  EXPECT_TRUE(config->qkv_bias);
  EXPECT_TRUE(config->output_bias);
  EXPECT_EQ(config->num_labels, 0);
}

TEST(ModelConfigTest, ReadsThePublishedDialect) {
  const auto config = ParseModelConfig(kPublished);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->vocab_size, 151936);
  EXPECT_EQ(config->num_layers, 28);
  EXPECT_EQ(config->head_dim, 128);
  EXPECT_EQ(config->rope.theta, 1e6);
  EXPECT_TRUE(config->tie_word_embeddings);
  EXPECT_FALSE(config->qkv_bias);
}

// The expected values are transformers' num_labels for the same keys.
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

TEST(ModelConfigTest, ReadsRopeScalingOfBothDialects) {
  json config = json::parse(kTransformers5);
  config.erase("rope_parameters");
  config["rope_theta"] = 5e5;
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  const auto published = ParseModelConfig(config.dump());
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_EQ(published->rope.type, RopeType::kLinear);
  EXPECT_EQ(published->rope.theta, 5e5);
  const auto own =
      ParseWith("rope_parameters", R"({"rope_type": "yarn", "factor": 4, "rope_theta": 9})");
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->rope.type, RopeType::kYarn);
  // If the original length is absent, it is max_position_embeddings.
  EXPECT_EQ(own->rope.original_max_position_embeddings, 64);
  EXPECT_THAT(ParseWith("rope_parameters", "null").status().message(),
              HasSubstr("rope_theta (or rope_parameters.rope_theta) is missing"));
}

TEST(ModelConfigTest, AMissingHeadDimIsWhatTransformersAssumes) {
  EXPECT_EQ(ParseWith("head_dim", "")->head_dim, 128);  // Qwen3's default
  EXPECT_EQ(ParseWith("head_dim", "null")->head_dim, 128);
  json config = OfFamily("llama", "Llama");
  EXPECT_EQ(ParseModelConfig(config.dump())->head_dim, 8);
  config.erase("head_dim");
  EXPECT_EQ(ParseModelConfig(config.dump())->head_dim, 4);
  config["hidden_size"] = 18;
  EXPECT_THAT(ParseModelConfig(config.dump()).status().message(), HasSubstr("head_dim is missing"));
  config["hidden_size"] = 12;  // 12 / 4 heads = 3
  EXPECT_THAT(ParseModelConfig(config.dump()).status().message(), HasSubstr("head_dim: 3"));
  config["hidden_size"] = 131072;
  EXPECT_THAT(ParseModelConfig(config.dump()).status().message(), HasSubstr("head_dim: 32768"));
}

TEST(ModelConfigTest, KnowsEveryFamilyAndHead) {
  struct Names {
    std::string model_type, class_prefix;
  };
  for (const Names& names : std::vector<Names>{{"llama", "Llama"},
                                               {"mistral", "Mistral"},
                                               {"qwen2", "Qwen2"},
                                               {"qwen3", "Qwen3"},
                                               {"qwen3_moe", "Qwen3Moe"}}) {
    for (const auto& [suffix, head] : std::vector<std::pair<std::string, ModelHead>>{
             {"Model", ModelHead::kNone},
             {"ForCausalLM", ModelHead::kLanguageModel},
             {"ForSequenceClassification", ModelHead::kClassifier}}) {
      json config = OfFamily(names.model_type, names.class_prefix);
      config["architectures"] = {names.class_prefix + suffix};
      const auto parsed = ParseModelConfig(config.dump());
      ASSERT_TRUE(parsed.ok()) << parsed.status();
      EXPECT_EQ(parsed->architecture, names.class_prefix + suffix);
      EXPECT_EQ(parsed->head, head);
      EXPECT_EQ(parsed->num_labels, head == ModelHead::kClassifier ? 2 : 0);
      config["architectures"] = {"Gemma" + suffix};
      EXPECT_THAT(ParseModelConfig(config.dump()).status().message(),
                  HasSubstr("expected one of " + names.class_prefix + "Model, " +
                            names.class_prefix + "ForCausalLM, "));
    }
  }
}

TEST(ModelConfigTest, BiasesAndNormsFollowTheFamily) {
  for (const bool configured : {false, true}) {
    const auto parse = [configured](const std::string& model_type, const std::string& prefix) {
      json config = OfFamily(model_type, prefix);
      config["attention_bias"] = configured;
      return *ParseModelConfig(config.dump());
    };
    EXPECT_EQ(parse("qwen3", "Qwen3").qkv_bias, configured);
    EXPECT_EQ(parse("qwen3", "Qwen3").output_bias, configured);
    EXPECT_TRUE(parse("qwen3", "Qwen3").qk_norm);
    EXPECT_EQ(parse("llama", "Llama").qkv_bias, configured);
    EXPECT_EQ(parse("llama", "Llama").output_bias, configured);
    EXPECT_FALSE(parse("llama", "Llama").qk_norm);
    // transformers does not read the key for these families.
    EXPECT_TRUE(parse("qwen2", "Qwen2").qkv_bias);
    EXPECT_FALSE(parse("qwen2", "Qwen2").output_bias);
    EXPECT_FALSE(parse("qwen2", "Qwen2").qk_norm);
    EXPECT_FALSE(parse("mistral", "Mistral").qkv_bias);
  }
}

// The expected windows and layers are those of transformers 5.17 for the same keys.
TEST(ModelConfigTest, ReadsSlidingWindowsAsTheFamilyDoes) {
  struct Case {
    std::string model_type, class_prefix, keys;
    int64_t window;
    std::vector<bool> layers;
  };
  const std::string full = R"(["full_attention", "full_attention"])";
  const std::string mixed = R"(["sliding_attention", "full_attention"])";
  for (const Case& item : std::vector<Case>{
           {"qwen3", "Qwen3", R"({"sliding_window": 9})", 0, {}},
           {"qwen3",
            "Qwen3",
            R"({"use_sliding_window": true, "sliding_window": 9, "max_window_layers": 1})",
            9,
            {false, true}},
           {"qwen2",
            "Qwen2",
            R"({"use_sliding_window": true, "sliding_window": 9, "max_window_layers": 0})",
            9,
            {true, true}},
           {"qwen2",
            "Qwen2",
            R"({"use_sliding_window": true, "sliding_window": 9, "max_window_layers": 28})",
            0,
            {}},
           {"qwen2",
            "Qwen2",
            R"({"use_sliding_window": true, "sliding_window": 9, "max_window_layers": 0,
                "layer_types": )" +
                mixed + "}",
            9,
            {true, false}},
           {"qwen2",
            "Qwen2",
            R"({"use_sliding_window": true, "sliding_window": 9, "layer_types": )" + full + "}",
            0,
            {}},
           {"qwen3_moe", "Qwen3Moe", R"({"sliding_window": 9})", 0, {}},
           {"qwen3_moe",
            "Qwen3Moe",
            R"({"use_sliding_window": true, "sliding_window": 9})",
            9,
            {true, true}},
           {"mistral", "Mistral", R"({"sliding_window": 9})", 9, {true, true}},
           {"mistral", "Mistral", R"({"sliding_window": null})", 0, {}},
           // A window of 64 holds the longest path of 64 positions, so it hides nothing.
           {"mistral", "Mistral", R"({"sliding_window": 63})", 63, {true, true}},
           {"mistral", "Mistral", R"({"sliding_window": 64})", 0, {}},
           // Paths may be longer than 64 tokens here, so a window of 64 hides some tokens.
           {"mistral",
            "Mistral",
            R"({"sliding_window": 64, "rope_parameters": {"rope_type": "yarn", "factor": 4,
                "rope_theta": 10000.0, "original_max_position_embeddings": 64}})",
            64,
            {true, true}},
       }) {
    json config = OfFamily(item.model_type, item.class_prefix);
    config.erase("layer_types");
    config.update(json::parse(item.keys));
    const auto parsed = ParseModelConfig(config.dump());
    ASSERT_TRUE(parsed.ok()) << item.keys << parsed.status();
    EXPECT_EQ(parsed->sliding_window, item.window) << item.model_type << item.keys;
    EXPECT_EQ(parsed->sliding_layers, item.layers) << item.model_type << item.keys;
    EXPECT_EQ(parsed->mixer(1) == MixerKind::kSlidingAttention,
              !item.layers.empty() && item.layers[1]);
  }
}

TEST(ModelConfigTest, NamesSlidingWindowsThatMakeNoSense) {
  struct Case {
    std::string model_type, class_prefix, keys, message;
  };
  for (const Case& item : std::vector<Case>{
           {"llama", "Llama", R"({"sliding_window": 9})", "sliding_window: 9"},
           {"llama", "Llama", R"({"use_sliding_window": true})", "use_sliding_window: true"},
           {"mistral", "Mistral", R"({"sliding_window": 0})", "sliding_window: 0"},
           {"mistral", "Mistral", R"({"sliding_window": 9})", "layer_types[0]: \"full_attention\""},
           {"qwen2", "Qwen2", R"({"use_sliding_window": true, "sliding_window": "9"})",
            "sliding_window: \"9\""},
           {"qwen2", "Qwen2",
            R"({"use_sliding_window": true, "sliding_window": 9, "layer_types": null,
                "max_window_layers": null})",
            "max_window_layers is missing"},
           {"qwen2", "Qwen2",
            R"({"use_sliding_window": true, "sliding_window": 9, "layer_types": null,
                "max_window_layers": -1})",
            "max_window_layers: -1"},
           {"qwen2", "Qwen2",
            R"({"use_sliding_window": true, "sliding_window": 9,
                "layer_types": ["full_attention", "chunked_attention"]})",
            "layer_types[1]: \"chunked_attention\""},
       }) {
    json config = OfFamily(item.model_type, item.class_prefix);
    config.update(json::parse(item.keys));
    EXPECT_THAT(ParseModelConfig(config.dump()).status().message(), HasSubstr(item.message))
        << item.keys;
  }
  json config = OfFamily("mistral", "Mistral");
  config.erase("sliding_window");
  EXPECT_THAT(ParseModelConfig(config.dump()).status().message(),
              HasSubstr("sliding_window (null = full attention) is missing"));
}

TEST(ModelConfigTest, ReadsExperts) {
  json config = OfFamily("qwen3_moe", "Qwen3Moe");
  auto parsed = ParseModelConfig(config.dump());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->experts.num_experts, 6);
  EXPECT_EQ(parsed->experts.experts_per_token, 2);
  EXPECT_EQ(parsed->experts.intermediate_size, 8);
  EXPECT_TRUE(parsed->experts.normalize_weights);
  EXPECT_EQ(parsed->experts.sparse_layers, (std::vector<bool>{true, true}));
  EXPECT_EQ(ParseModelConfig(kTransformers5)->channel(0), ChannelKind::kGatedMlp);
  EXPECT_EQ(parsed->channel(0), ChannelKind::kExperts);
  config["decoder_sparse_step"] = 2;
  EXPECT_EQ(ParseModelConfig(config.dump())->experts.sparse_layers,
            (std::vector<bool>{false, true}));
  config["mlp_only_layers"] = {1};
  EXPECT_EQ(ParseModelConfig(config.dump())->experts.sparse_layers,
            (std::vector<bool>{false, false}));
  // transformers 5 writes this spelling.
  config["num_local_experts"] = 6;
  config.erase("num_experts");
  EXPECT_EQ(ParseModelConfig(config.dump())->experts.num_experts, 6);
}

TEST(ModelConfigTest, NamesExpertsThatItRefuses) {
  struct Case {
    std::string keys, message;
  };
  for (const Case& item : std::vector<Case>{
           {R"({"num_experts": null})", "num_experts (or num_local_experts) is missing"},
           {R"({"num_experts": 0})", "num_experts: 0"},
           {R"({"num_experts": 1025})", "num_experts: 1025"},
           {R"({"num_local_experts": 5})", "num_local_experts: 5"},
           {R"({"num_experts_per_tok": 7})", "num_experts_per_tok: 7"},
           {R"({"num_experts_per_tok": null})", "num_experts_per_tok is missing"},
           {R"({"norm_topk_prob": null})", "norm_topk_prob is missing"},
           {R"({"norm_topk_prob": 1})", "norm_topk_prob: 1"},
           {R"({"moe_intermediate_size": null})", "moe_intermediate_size is missing"},
           {R"({"moe_intermediate_size": 12})", "12 is not a multiple of 8"},
           {R"({"decoder_sparse_step": 0})", "decoder_sparse_step: 0"},
           {R"({"mlp_only_layers": [2]})", "mlp_only_layers: 2"},
           {R"({"mlp_only_layers": ["0"]})", "mlp_only_layers: \"0\""},
           {R"({"mlp_only_layers": 0})", "mlp_only_layers: 0"},
           {R"({"num_experts": 1024, "num_hidden_layers": 200, "layer_types": null})",
            "1024 in each of 200 layers"},
       }) {
    json config = OfFamily("qwen3_moe", "Qwen3Moe");
    config.update(json::parse(item.keys));
    EXPECT_THAT(ParseModelConfig(config.dump()).status().message(), HasSubstr(item.message))
        << item.keys;
  }
}

TEST(ModelConfigTest, OnlyLlamaMayLeaveKeyValueHeadsOut) {
  json config = OfFamily("llama", "Llama");
  config.erase("num_key_value_heads");
  EXPECT_EQ(ParseModelConfig(config.dump())->num_kv_heads, 4);
  config = OfFamily("mistral", "Mistral");
  config.erase("num_key_value_heads");
  EXPECT_THAT(ParseModelConfig(config.dump()).status().message(),
              HasSubstr("num_key_value_heads is missing"));
}

// Llama 1 and 2 were published without the key; transformers 5.17 uses 10,000.
TEST(ModelConfigTest, OnlyLlamaMayLeaveRopeThetaOut) {
  for (const std::string prefix : {"Llama", "Mistral", "Qwen2", "Qwen3"}) {
    json config = OfFamily(absl::AsciiStrToLower(prefix), prefix);
    config.erase("rope_parameters");
    config.erase("layer_types");
    const auto parsed = ParseModelConfig(config.dump());
    if (prefix == "Llama") {
      ASSERT_TRUE(parsed.ok()) << parsed.status();
      EXPECT_EQ(parsed->rope.theta, 10000);
    } else {
      EXPECT_THAT(parsed.status().message(),
                  HasSubstr("rope_theta (or rope_parameters.rope_theta) is missing"));
    }
  }
}

// The model cards of Qwen2.5 give 32,768 positions, stretched by a factor of four.
TEST(ModelConfigTest, YarnStretchesTheLongestPathBeyondMaxPositionEmbeddings) {
  EXPECT_EQ(ParseModelConfig(kTransformers5)->max_positions, 64);
  const auto stretched = ParseWith("rope_parameters",
                                   R"({"rope_type": "yarn", "factor": 4.0, "rope_theta": 1000000.0,
                                       "original_max_position_embeddings": 64})");
  ASSERT_TRUE(stretched.ok()) << stretched.status();
  EXPECT_EQ(stretched->max_position_embeddings, 64);
  EXPECT_EQ(stretched->max_positions, 256);
}

TEST(ModelConfigTest, OnlyAClassifierHasAPadToken) {
  const auto pad_token = [](const std::string& architecture, const json& id) {
    json config = json::parse(kTransformers5);
    config["architectures"] = {architecture};
    config["pad_token_id"] = id;
    return ParseModelConfig(config.dump())->pad_token;
  };
  const std::string classifier = "Qwen3ForSequenceClassification";
  EXPECT_EQ(pad_token(classifier, 49), 49);
  EXPECT_EQ(pad_token(classifier, 0), 0);
  // The vocabulary has 50 tokens, so no path can end with these.
  EXPECT_EQ(pad_token(classifier, 50), std::nullopt);
  EXPECT_EQ(pad_token(classifier, -1), std::nullopt);
  EXPECT_EQ(pad_token(classifier, nullptr), std::nullopt);
  EXPECT_EQ(pad_token("Qwen3ForCausalLM", 49), std::nullopt);
}

TEST(ModelConfigTest, KeepsWhatHasNoEffectForTheLog) {
  EXPECT_EQ(ParseModelConfig(kTransformers5)->auto_map, "");
  EXPECT_EQ(ParseWith("auto_map", R"({"AutoModel": "modeling_qwen.Qwen2Model"})")->auto_map,
            R"({"AutoModel":"modeling_qwen.Qwen2Model"})");
  const auto ignored = ParseWith("rope_parameters",
                                 R"({"rope_type": "yarn", "factor": 4, "rope_theta": 9,
                                     "attn_factor": 0.9})")
                           ->ignored_keys;
  EXPECT_EQ(ignored,
            (std::vector<std::string>{"rope_parameters.attn_factor beside type \"yarn\""}));
}

TEST(ModelConfigTest, NamesWhatItRefuses) {
  struct Case {
    std::string key, value, message;
  };
  for (const Case& refused : std::vector<Case>{
           {"model_type", "\"gpt2\"", "model_type: \"gpt2\""},
           {"model_type", "3", "model_type: 3"},
           {"model_type", "", "model_type is missing"},
           {"architectures", "[\"LlamaForCausalLM\"]", "architectures: [\"LlamaForCausalLM\"]"},
           {"architectures", "[\"Qwen3Model\",\"Qwen3Model\"]", "architectures: "},
           {"architectures", "[[\"Qwen3Model\"]]", "architectures: "},
           {"architectures", "\"Qwen3Model\"", "architectures: \"Qwen3Model\""},
           {"architectures", "[]", "architectures: []"},
           {"architectures", "null", "architectures is missing"},
           {"use_sliding_window", "true", "sliding_window is missing"},
           {"use_sliding_window", "1", "use_sliding_window: 1"},
           {"layer_types", "[\"full_attention\",\"sliding_attention\"]",
            "layer_types[1]: \"sliding_attention\""},
           {"layer_types", "[\"full_attention\"]", "a list of 2"},
           {"layer_types", "{}", "layer_types: {}"},
           {"layer_types", "[1,2]", "layer_types[0]: 1"},
           {"hidden_act", "\"gelu\"", "hidden_act: \"gelu\""},
           {"mlp_bias", "true", "mlp_bias: true"},
           {"is_causal", "false", "is_causal: false"},
           {"use_bidirectional_attention", "true", "use_bidirectional_attention: true"},
           {"quantization_config", "{\"quant_method\":\"fp8\"}",
            "quantization_config: the checkpoint is quantised (quant_method \"fp8\")"},
           {"quantization", "{\"group_size\":64,\"bits\":4}",
            "quantization: the checkpoint is quantised ({\"bits\":4,\"group_size\":64})"},
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
           "{\"vocab_size\":50," + good.substr(1),         // duplicate key
           "{\"extra\":NaN," + good.substr(1),             //
           "{\"extra\":1e999," + good.substr(1),           //
           "{\"extra\":" + std::string(1000, '[') + good,  //
       }) {
    EXPECT_EQ(ParseModelConfig(text).status().code(), absl::StatusCode::kInvalidArgument)
        << text.substr(0, 60);
  }
}

// The parser must return for any bytes, without a sanitizer report.
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
