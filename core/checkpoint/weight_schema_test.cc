#include "core/checkpoint/weight_schema.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/checkpoint/decision_layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using ::testing::HasSubstr;

ModelConfig TinyConfig(ModelHead head) {
  ModelConfig config;
  config.head = head;
  config.qk_norm = true;
  config.vocab_size = 50;
  config.hidden_size = 16;
  config.intermediate_size = 24;
  config.num_layers = 1;
  config.num_query_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 8;
  config.num_labels = head == ModelHead::kClassifier ? 3 : 0;
  return config;
}

struct Stored {
  std::string name;
  std::vector<int64_t> shape;
  DType dtype = DType::kFloat32;
  char fill = 'x';
  absl::string_view pattern = {};  // repeated instead of `fill` if not empty
};

WeightSource SourceOf(const std::vector<Stored>& stored) {
  auto owner = std::make_shared<std::vector<std::string>>();
  owner->reserve(stored.size());
  std::vector<TensorView> tensors;
  for (const Stored& tensor : stored) {
    int64_t bytes = DTypeBytes(tensor.dtype);
    for (const int64_t dimension : tensor.shape) {
      bytes *= dimension;
    }
    owner->emplace_back(static_cast<size_t>(bytes), tensor.fill);
    std::string& data = owner->back();
    for (size_t i = 0; i < data.size() && !tensor.pattern.empty(); ++i) {
      data[i] = tensor.pattern[i % tensor.pattern.size()];
    }
    tensors.push_back({tensor.name,
                       tensor.dtype,
                       tensor.shape,
                       {reinterpret_cast<const uint8_t*>(data.data()), data.size()}});
  }
  return *WeightSource::Create(std::move(tensors), std::move(owner));
}

// Returns the tensors that transformers 5 saves for one layer: vocabulary 50, hidden size 16,
// intermediate size 24, 4 query and 2 key-value heads of 8 elements, with attention bias.
std::vector<Stored> SavedByTransformers(const std::string& prefix) {
  std::vector<Stored> stored = {
      {"embed_tokens.weight", {50, 16}},
      {"layers.0.input_layernorm.weight", {16}},
      {"layers.0.mlp.down_proj.weight", {16, 24}},
      {"layers.0.mlp.gate_proj.weight", {24, 16}},
      {"layers.0.mlp.up_proj.weight", {24, 16}},
      {"layers.0.post_attention_layernorm.weight", {16}},
      {"layers.0.self_attn.k_norm.weight", {8}},
      {"layers.0.self_attn.k_proj.bias", {16}},
      {"layers.0.self_attn.k_proj.weight", {16, 16}},
      {"layers.0.self_attn.o_proj.bias", {16}},
      {"layers.0.self_attn.o_proj.weight", {16, 32}},
      {"layers.0.self_attn.q_norm.weight", {8}},
      {"layers.0.self_attn.q_proj.bias", {32}},
      {"layers.0.self_attn.q_proj.weight", {32, 16}},
      {"layers.0.self_attn.v_proj.bias", {16}},
      {"layers.0.self_attn.v_proj.weight", {16, 16}},
      {"norm.weight", {16}},
  };
  for (Stored& tensor : stored) {
    tensor.name = prefix + tensor.name;
  }
  return stored;
}

ModelConfig BiasConfig(ModelHead head) {
  ModelConfig config = TinyConfig(head);
  config.qkv_bias = config.output_bias = true;
  return config;
}

std::string MatchError(const std::vector<Stored>& stored, const ModelConfig& config) {
  const auto map = MatchWeights(SourceOf(stored), config);
  EXPECT_EQ(map.status().code(), absl::StatusCode::kDataLoss);
  return std::string(map.status().message());
}

TEST(WeightSchemaTest, MatchesWhatTransformersSaves) {
  for (const std::string prefix : {"", "model."}) {
    const auto stored = SavedByTransformers(prefix);
    const auto map = MatchWeights(SourceOf(stored), BiasConfig(ModelHead::kNone));
    ASSERT_TRUE(map.ok()) << map.status();
    EXPECT_EQ(map->tensors.size(), stored.size());
    for (const Stored& tensor : stored) {
      const TensorView* view = map->Find(tensor.name.substr(prefix.size()));
      ASSERT_NE(view, nullptr) << tensor.name;
      EXPECT_EQ(view->name, tensor.name);
      EXPECT_EQ(view->shape, tensor.shape);
    }
    EXPECT_EQ(map->Find("lm_head.weight"), nullptr);
  }
}

TEST(WeightSchemaTest, MatchesHeads) {
  auto untied = SavedByTransformers("model.");
  untied.push_back({"lm_head.weight", {50, 16}});
  const auto language_model = MatchWeights(SourceOf(untied), BiasConfig(ModelHead::kLanguageModel));
  ASSERT_TRUE(language_model.ok()) << language_model.status();
  EXPECT_NE(language_model->Find("lm_head.weight"), nullptr);

  auto classifier = SavedByTransformers("model.");
  classifier.push_back({"score.weight", {3, 16}, DType::kBFloat16});
  const auto reward = MatchWeights(SourceOf(classifier), BiasConfig(ModelHead::kClassifier));
  ASSERT_TRUE(reward.ok()) << reward.status();
  EXPECT_EQ(reward->Find("score.weight")->dtype, DType::kBFloat16);

  EXPECT_THAT(MatchError(SavedByTransformers("model."), BiasConfig(ModelHead::kClassifier)),
              HasSubstr("1 missing: score.weight"));
  EXPECT_THAT(MatchError(classifier, BiasConfig(ModelHead::kNone)),
              HasSubstr("1 unexpected: score.weight"));
}

TEST(WeightSchemaTest, LanguageModelMayCarryARewardHead) {
  const ModelConfig config = BiasConfig(ModelHead::kLanguageModel);
  auto stored = SavedByTransformers("model.");
  stored.push_back({"lm_head.weight", {50, 16}});
  const auto alone = MatchWeights(SourceOf(stored), config);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->CountParameters(), CountParameters(config));
  stored.push_back({"score.weight", {2, 16}, DType::kBFloat16});
  const auto both = MatchWeights(SourceOf(stored), config);
  ASSERT_TRUE(both.ok()) << both.status();
  ASSERT_NE(both->Find("score.weight"), nullptr);
  EXPECT_EQ(both->Find("score.weight")->shape, (std::vector<int64_t>{2, 16}));
  EXPECT_EQ(both->CountParameters(), CountParameters(config) + 2 * 16);
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{}, {16}, {0, 16}, {2, 15}, {1, 1, 16}}) {
    stored.back().shape = shape;
    EXPECT_THAT(MatchError(stored, config), HasSubstr("1 of the wrong shape: score.weight"));
  }
}

TEST(WeightSchemaTest, TiedHeadMayOnlyRepeatTheEmbedding) {
  ModelConfig config = BiasConfig(ModelHead::kLanguageModel);
  config.tie_word_embeddings = true;
  auto stored = SavedByTransformers("model.");
  EXPECT_TRUE(MatchWeights(SourceOf(stored), config).ok());
  stored.push_back({"lm_head.weight", {50, 16}});
  const auto map = MatchWeights(SourceOf(stored), config);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->Find("lm_head.weight"), nullptr);
  for (const Stored& other : std::vector<Stored>{{"lm_head.weight", {50, 16}, DType::kFloat32, 'y'},
                                                 {"lm_head.weight", {25, 32}},
                                                 {"lm_head.weight", {100, 16}, DType::kBFloat16}}) {
    stored.back() = other;
    EXPECT_THAT(MatchError(stored, config), HasSubstr("lm_head.weight differs from"));
  }
}

// The embedding is in bfloat16 and the head repeats it in float32, or the other way around.
TEST(WeightSchemaTest, TiedHeadMayRepeatTheEmbeddingInAnotherType) {
  ModelConfig config = BiasConfig(ModelHead::kLanguageModel);
  config.tie_word_embeddings = true;
  struct Values {
    DType dtype;
    std::string one, other;  // the bytes of 1.5 and of a number next to it
  };
  const std::vector<Values> types = {
      {DType::kFloat32, std::string("\x00\x00\xc0\x3f", 4), std::string("\x01\x00\xc0\x3f", 4)},
      {DType::kBFloat16, "\xc0\x3f", "\xc1\x3f"},
      {DType::kFloat16, std::string("\x00\x3e", 2), "\x01\x3e"},
  };
  for (const Values& embedding : types) {
    for (const Values& head : types) {
      auto stored = SavedByTransformers("model.");
      stored[0].dtype = embedding.dtype;
      stored[0].pattern = embedding.one;
      stored.push_back({"lm_head.weight", {50, 16}, head.dtype, 'x', head.one});
      const auto same = MatchWeights(SourceOf(stored), config);
      ASSERT_TRUE(same.ok()) << same.status();
      EXPECT_EQ(same->Find("lm_head.weight"), nullptr);
      stored.back().pattern = head.other;
      EXPECT_THAT(MatchError(stored, config), HasSubstr("lm_head.weight differs from"));
    }
  }
}

// The comparison must be interruptible, because comparing a large head takes seconds.
TEST(WeightSchemaTest, TheComparisonOfATiedHeadEndsWhenNobodyWantsIt) {
  ModelConfig config = BiasConfig(ModelHead::kLanguageModel);
  config.tie_word_embeddings = true;
  config.vocab_size = 600'000;  // 38 MB in float32: three steps
  auto stored = SavedByTransformers("model.");
  stored[0].shape[0] = config.vocab_size;
  stored.push_back({"lm_head.weight", {config.vocab_size, 16}});
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    stored.front().fill = '\0';
    stored.back().fill = '\0';
    stored.back().dtype = dtype;
    const WeightSource source = SourceOf(stored);
    int asked = 0;
    int last = 3;
    const auto count = [&] {
      return ++asked > last ? absl::CancelledError("gone") : absl::OkStatus();
    };
    EXPECT_TRUE(MatchWeights(source, config, count).ok());
    EXPECT_GE(asked, 2);
    last = asked - 1;
    asked = 0;
    EXPECT_TRUE(absl::IsCancelled(MatchWeights(source, config, count).status()));
  }
}

// If only one of the two tensors is stored, transformers uses it for both.
TEST(WeightSchemaTest, TiedHeadMayStandInPlaceOfTheEmbedding) {
  ModelConfig config = BiasConfig(ModelHead::kLanguageModel);
  config.tie_word_embeddings = true;
  auto stored = SavedByTransformers("model.");
  stored[0].name = "lm_head.weight";
  const auto map = MatchWeights(SourceOf(stored), config);
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_NE(map->Find("embed_tokens.weight"), nullptr);
  EXPECT_EQ(map->Find("embed_tokens.weight")->name, "lm_head.weight");
  EXPECT_FALSE(map->lacks_lm_head);
  config.tie_word_embeddings = false;
  EXPECT_THAT(MatchError(stored, config), HasSubstr("neither model.embed_tokens.weight"));
}

TEST(WeightSchemaTest, AnUntiedLanguageModelMayLackItsHead) {
  const ModelConfig config = BiasConfig(ModelHead::kLanguageModel);
  const auto map = MatchWeights(SourceOf(SavedByTransformers("model.")), config);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_TRUE(map->lacks_lm_head);
  EXPECT_EQ(map->CountParameters(), CountParameters(config) - 50 * 16);
  auto stored = SavedByTransformers("model.");
  stored.push_back({"lm_head.weight", {50, 16}});
  EXPECT_FALSE(MatchWeights(SourceOf(stored), config)->lacks_lm_head);
}

TEST(WeightSchemaTest, IgnoresAndReportsTensorsThatNothingReads) {
  // Llama 2's published folder has one such buffer per layer, in float32 or float16.
  auto stored = SavedByTransformers("model.");
  stored.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {4}});
  stored.push_back({"model.rotary_emb.inv_freq", {4}, DType::kFloat16});
  const auto base = MatchWeights(SourceOf(stored), BiasConfig(ModelHead::kNone));
  ASSERT_TRUE(base.ok()) << base.status();
  EXPECT_EQ(base->tensors.size(), stored.size() - 2);
  EXPECT_THAT(base->ignored, ::testing::ElementsAre("2 tensors rotary_emb.inv_freq"));
  stored.back().name = "model.layers.0.self_attn.rotary_emb.cos";
  EXPECT_THAT(MatchError(stored, BiasConfig(ModelHead::kNone)), HasSubstr("1 unexpected: model."));

  // This classifier was trained from a language model and kept its head.
  auto classifier = SavedByTransformers("model.");
  classifier.push_back({"score.weight", {3, 16}});
  classifier.push_back({"lm_head.weight", {50, 16}});
  ModelConfig config = BiasConfig(ModelHead::kClassifier);
  config.architecture = "Qwen3ForSequenceClassification";
  const auto reward = MatchWeights(SourceOf(classifier), config);
  ASSERT_TRUE(reward.ok()) << reward.status();
  EXPECT_EQ(reward->Find("lm_head.weight"), nullptr);
  EXPECT_THAT(reward->ignored,
              ::testing::ElementsAre("lm_head.weight of a Qwen3ForSequenceClassification"));
}

TEST(WeightSchemaTest, BiasFollowsTheConfiguration) {
  const std::string error = MatchError(SavedByTransformers(""), TinyConfig(ModelHead::kNone));
  EXPECT_THAT(error, HasSubstr("4 unexpected: layers.0.self_attn.k_proj.bias"));
}

TEST(WeightSchemaTest, PrefixIsAllOrNothing) {
  const ModelConfig config = BiasConfig(ModelHead::kNone);
  auto stored = SavedByTransformers("model.");
  stored.back().name = "norm.weight";
  EXPECT_THAT(MatchError(stored, config),
              HasSubstr("1 missing: model.norm.weight; 1 unexpected: norm.weight"));
  stored = SavedByTransformers("model.");
  stored.push_back({"embed_tokens.weight", {50, 16}});
  EXPECT_THAT(MatchError(stored, config), HasSubstr("both model.embed_tokens.weight"));
  EXPECT_THAT(MatchError(SavedByTransformers("transformer."), config),
              HasSubstr("neither model.embed_tokens.weight nor embed_tokens.weight"));
  EXPECT_THAT(MatchError(SavedByTransformers("base_model.model.model."), config),
              HasSubstr("; its first tensor is base_model.model.model.embed_tokens.weight"));
  EXPECT_THAT(MatchError({}, config), HasSubstr("neither"));
}

// Returns the tensors that PyTorch saves for the decision head at hidden size 16, by module name.
std::vector<Stored> DecisionHead() {
  std::vector<Stored> stored = {
      {"proj_in.weight", {256, 16}},  {"proj_in.bias", {256}},
      {"proj_out.weight", {16, 256}}, {"proj_out.bias", {16}},
      {"scorer.norm.weight", {16}},   {"scorer.fc1.weight", {256, 16}},
      {"scorer.fc1.bias", {256}},     {"scorer.fc2.weight", {1, 256}},
      {"scorer.fc2.bias", {1}},
  };
  for (const std::string layer : {"0.", "1."}) {
    for (const Stored& tensor : std::vector<Stored>{{"self_attn.in_proj_weight", {768, 256}},
                                                    {"self_attn.in_proj_bias", {768}},
                                                    {"self_attn.out_proj.weight", {256, 256}},
                                                    {"self_attn.out_proj.bias", {256}},
                                                    {"linear1.weight", {1024, 256}},
                                                    {"linear1.bias", {1024}},
                                                    {"linear2.weight", {256, 1024}},
                                                    {"linear2.bias", {256}},
                                                    {"norm1.weight", {256}},
                                                    {"norm1.bias", {256}},
                                                    {"norm2.weight", {256}},
                                                    {"norm2.bias", {256}}}) {
      stored.push_back(tensor);
      stored.back().name = "set_encoder.encoder.layers." + layer + tensor.name;
    }
  }
  return stored;
}

TEST(WeightSchemaTest, TheDecisionLayoutTakesItsBackboneFromAnyHead) {
  auto stored = SavedByTransformers(kDecisionBackbonePrefix);
  for (const Stored& tensor : DecisionHead()) {
    stored.push_back(tensor);
  }
  for (const ModelHead head :
       {ModelHead::kNone, ModelHead::kLanguageModel, ModelHead::kClassifier}) {
    ModelConfig config = BiasConfig(head);
    config.tie_word_embeddings = head == ModelHead::kLanguageModel;
    const auto map = MatchWeights(SourceOf(stored), config);
    ASSERT_TRUE(map.ok()) << map.status();
    EXPECT_TRUE(map->has_decision_head);
    EXPECT_EQ(map->tensors.size(), stored.size());
    EXPECT_EQ(map->Find("norm.weight")->name, "path_encoder.backbone.norm.weight");
    EXPECT_NE(map->Find("set_encoder.encoder.layers.1.norm2.bias"), nullptr);
    int64_t elements = 0;
    for (const Stored& tensor : stored) {
      elements += tensor.shape[0] * (tensor.shape.size() == 2 ? tensor.shape[1] : 1);
    }
    EXPECT_EQ(map->CountParameters(), elements);
  }
}

TEST(WeightSchemaTest, TheDecisionLayoutIsStrict) {
  const ModelConfig config = BiasConfig(ModelHead::kLanguageModel);
  const auto backbone = SavedByTransformers(kDecisionBackbonePrefix);
  EXPECT_THAT(MatchError(backbone, config), HasSubstr("33 missing: proj_in.weight, "));
  const auto head = DecisionHead();
  for (size_t left_out = 0; left_out < head.size(); ++left_out) {
    auto stored = backbone;
    for (size_t i = 0; i < head.size(); ++i) {
      if (i != left_out) {
        stored.push_back(head[i]);
      }
    }
    EXPECT_THAT(MatchError(stored, config),
                HasSubstr(absl::StrCat(": 1 missing: ", head[left_out].name)));
    stored.push_back(head[left_out]);
    stored.back().shape.push_back(1);
    EXPECT_THAT(MatchError(stored, config),
                HasSubstr(absl::StrCat("of the wrong shape: ", head[left_out].name)));
    stored.back() = head[left_out];
    stored.push_back({"set_encoder.encoder.layers.2.norm1.bias", {256}});
    EXPECT_THAT(MatchError(stored, config), HasSubstr("1 unexpected: set_encoder"));
  }
  // A decision head without the decision layout is refused.
  auto plain = SavedByTransformers("model.");
  plain.push_back(head.front());
  EXPECT_THAT(MatchError(plain, BiasConfig(ModelHead::kNone)),
              HasSubstr("1 unexpected: proj_in.weight"));
}

TEST(WeightSchemaTest, NamesWrongShapesAndDtypes) {
  const ModelConfig config = BiasConfig(ModelHead::kNone);
  auto stored = SavedByTransformers("");
  stored[2].shape = {24, 16};
  stored[3].dtype = DType::kInt16;
  stored[4].shape = {24, 16, 1};
  const std::string error = MatchError(stored, config);
  EXPECT_THAT(error, HasSubstr("2 of the wrong shape: "));
  EXPECT_THAT(error, HasSubstr("layers.0.mlp.down_proj.weight [24, 16] instead of [16, 24]"));
  EXPECT_THAT(error, HasSubstr("layers.0.mlp.up_proj.weight [24, 16, 1] instead of [24, 16]"));
  EXPECT_THAT(error, HasSubstr("1 of a dtype other than F32, BF16 and F16: "
                               "layers.0.mlp.gate_proj.weight I16"));
}

TEST(WeightSchemaTest, ShowsAtMostEightNames) {
  ModelConfig config = BiasConfig(ModelHead::kNone);
  config.num_layers = 3;
  auto stored = SavedByTransformers("");
  for (int i = 0; i < 9; ++i) {
    stored.push_back({absl::StrCat("z\n", i), {1}});
  }
  const std::string error = MatchError(stored, config);
  EXPECT_THAT(error, HasSubstr("30 missing: layers.1.input_layernorm.weight, "));
  EXPECT_THAT(error, HasSubstr("9 unexpected: z\\n0, z\\n1, z\\n2, z\\n3, z\\n4, z\\n5, z\\n6, "
                               "z\\n7, ..."));
  EXPECT_THAT(error, ::testing::Not(HasSubstr("layers.2")));
}

TEST(WeightSchemaTest, SparseLayersHaveARouterAndExperts) {
  ModelConfig config = TinyConfig(ModelHead::kNone);
  config.num_layers = 2;
  config.experts.sparse_layers = {false, true};
  config.experts.num_experts = 3;
  config.experts.intermediate_size = 8;
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const TensorSpec& spec : ExpectedTensors(config)) {
    shapes[spec.name] = spec.shape;
  }
  EXPECT_EQ(shapes.count("layers.0.mlp.gate_proj.weight"), 1U);
  EXPECT_EQ(shapes.count("layers.0.mlp.gate.weight"), 0U);
  EXPECT_EQ(shapes.count("layers.1.mlp.gate_proj.weight"), 0U);
  EXPECT_EQ(shapes["layers.1.mlp.gate.weight"], (std::vector<int64_t>{3, 16}));
  EXPECT_EQ(shapes["layers.1.mlp.experts.2.gate_proj.weight"], (std::vector<int64_t>{8, 16}));
  EXPECT_EQ(shapes["layers.1.mlp.experts.0.up_proj.weight"], (std::vector<int64_t>{8, 16}));
  EXPECT_EQ(shapes["layers.1.mlp.experts.1.down_proj.weight"], (std::vector<int64_t>{16, 8}));
  EXPECT_EQ(shapes.count("layers.1.mlp.experts.3.down_proj.weight"), 0U);
}

// The names and shapes are those of transformers 5's own parameters, which it saves if conversion
// is turned off.
TEST(WeightSchemaTest, SplitsExpertsThatAreStoredInOneTensor) {
  ModelConfig config = TinyConfig(ModelHead::kNone);
  config.qkv_bias = config.output_bias = true;
  config.experts.sparse_layers = {true};
  config.experts.num_experts = 3;
  config.experts.intermediate_size = 8;
  const std::string mlp = "model.layers.0.mlp.";
  std::vector<Stored> stored;
  for (Stored& tensor : SavedByTransformers("model.")) {
    if (tensor.name.find("mlp") == std::string::npos) {
      stored.push_back(tensor);
    }
  }
  std::string numbers(256, '\0');
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<char>(i);
  }
  stored.push_back({mlp + "gate.weight", {3, 16}});
  stored.push_back({mlp + "experts.gate_up_proj", {3, 16, 16}, DType::kBFloat16, 'x', numbers});
  stored.push_back({mlp + "experts.down_proj", {3, 16, 8}, DType::kFloat32, 'x', numbers});
  const WeightSource source = SourceOf(stored);
  const auto map = MatchWeights(source, config);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->CountParameters(), CountParameters(config));
  const auto expect_rows = [&](const std::string& name, const std::string& kind, size_t begin,
                               const std::vector<int64_t>& shape) {
    const TensorView* view = map->Find("layers.0.mlp.experts." + name);
    ASSERT_NE(view, nullptr) << name;
    EXPECT_EQ(view->shape, shape) << name;
    const TensorView& whole = *source.Find(mlp + "experts." + kind);
    const size_t bytes = static_cast<size_t>(shape[0] * shape[1] * DTypeBytes(whole.dtype));
    EXPECT_EQ(view->bytes, whole.bytes.subspan(begin * bytes, bytes)) << name;
  };
  expect_rows("0.gate_proj.weight", "gate_up_proj", 0, {8, 16});
  expect_rows("0.up_proj.weight", "gate_up_proj", 1, {8, 16});
  expect_rows("2.gate_proj.weight", "gate_up_proj", 4, {8, 16});
  expect_rows("2.up_proj.weight", "gate_up_proj", 5, {8, 16});
  expect_rows("2.down_proj.weight", "down_proj", 2, {16, 8});

  stored.back().shape = {3, 8, 16};
  EXPECT_THAT(
      MatchError(stored, config),
      ::testing::AllOf(HasSubstr("1 of the wrong shape: model.layers.0.mlp.experts.down_proj "
                                 "[3, 8, 16] instead of [3, 16, 8]"),
                       ::testing::Not(HasSubstr("missing"))));
  stored.pop_back();
  EXPECT_THAT(MatchError(stored, config), HasSubstr("missing: model.layers.0.mlp.experts.0"));
}

// The expected counts are the published numbers of distinct parameters.
TEST(WeightSchemaTest, CountsPublishedModels) {
  ModelConfig config;
  config.qk_norm = true;
  config.head = ModelHead::kLanguageModel;
  config.tie_word_embeddings = true;
  config.vocab_size = 151936;
  config.hidden_size = 1024;
  config.intermediate_size = 3072;
  config.num_layers = 28;
  config.num_query_heads = 16;
  config.num_kv_heads = 8;
  config.head_dim = 128;
  EXPECT_EQ(CountParameters(config), 596'049'920);
  EXPECT_EQ(ExpectedTensors(config).size(), 310U);
  config.tie_word_embeddings = false;
  config.hidden_size = 4096;
  config.intermediate_size = 12288;
  config.num_layers = 36;
  config.num_query_heads = 32;
  EXPECT_EQ(CountParameters(config), 8'190'735'360);
  // The sizes of Qwen3-30B-A3B.
  config.hidden_size = 2048;
  config.num_layers = 48;
  config.num_kv_heads = 4;
  config.experts.num_experts = 128;
  config.experts.intermediate_size = 768;
  config.experts.sparse_layers.assign(48, true);
  EXPECT_EQ(CountParameters(config), 30'532'122'624);
}

TEST(WeightSchemaTest, LargestConfigurationDoesNotOverflow) {
  ModelConfig config;
  config.qk_norm = true;
  config.head = ModelHead::kClassifier;
  config.vocab_size = 1 << 24;
  config.hidden_size = 1 << 17;
  config.intermediate_size = 1 << 20;
  config.num_layers = config.num_query_heads = config.num_kv_heads = config.head_dim = 1 << 10;
  config.num_labels = 1 << 16;
  config.qkv_bias = config.output_bias = true;
  const double layer = 3.0 * (1 << 17) * (1 << 20) + 4.0 * (1 << 17) * (1 << 20);
  EXPECT_NEAR(static_cast<double>(CountParameters(config)) / (1024 * layer), 1.0, 0.01);
}

}  // namespace
}  // namespace canopy
