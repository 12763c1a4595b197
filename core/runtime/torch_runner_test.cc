#include "core/runtime/torch_runner.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/checkpoint/host_model.h"
#include "core/checkpoint/synthetic.h"
#include "core/checkpoint/testing/test_files.h"
#include "core/engine/batch_tokens.h"
#include "core/ops/testing/reference_kernel_ops.h"
#include "core/tree/route_costs.h"
#include "core/tree/tree_plan.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

constexpr int64_t kHidden = 24;
// An element of the embedding in WriteCheckpoint's weights is 1e5, which exceeds float16.
constexpr int32_t kLargeToken = 19;

constexpr absl::string_view kConfig = R"({
  "architectures": ["Qwen3ForSequenceClassification"], "model_type": "qwen3", "num_labels": 2,
  "vocab_size": 29, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "hidden_act": "silu",
  "max_position_embeddings": 300, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
  "tie_word_embeddings": false, "attention_bias": false})";

// Writes a folder in the format of transformers: names of the backbone start with "model.".
void WriteCheckpoint(const TemporaryFolder& folder) {
  folder.Write("config.json", kConfig);
  folder.Write("tokenizer.json", "abc");
  const auto weights = MakeSyntheticWeights(*ParseModelConfig(kConfig));
  ASSERT_TRUE(weights.ok()) << weights.status();
  std::vector<std::string> entries;
  std::string data;
  for (const TensorView& view : weights->tensors()) {
    const std::string prefix = view.name == "score.weight" ? "" : "model.";
    const auto begin = static_cast<int64_t>(data.size());
    data.append(reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size());
    if (view.name == "embed_tokens.weight") {
      const float large = 1e5F;
      std::memcpy(&data[static_cast<size_t>(begin + kLargeToken * kHidden * 4)], &large,
                  sizeof large);
    }
    entries.push_back(SafetensorsEntry(prefix + view.name, "F32",
                                       absl::StrCat("[", absl::StrJoin(view.shape, ","), "]"),
                                       begin, static_cast<int64_t>(data.size())));
  }
  folder.Write("model.safetensors",
               SafetensorsFile(absl::StrCat("{", absl::StrJoin(entries, ","), "}"), data));
}

TorchRunnerOptions OptionsFor(const std::string& source) {
  TorchRunnerOptions options;
  options.source.name = "ranker";
  options.source.source = source;
  options.model.device = "cpu";
  options.model.dtype = "auto";
  options.model.threads = 1;
  return options;
}

class TorchRunnerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteCheckpoint(folder_);
    auto runner = LoadTorchRunner(OptionsFor(folder_.path()));
    ASSERT_TRUE(runner.ok()) << runner.status();
    runner_ = *std::move(runner);
  }

  absl::StatusOr<PartOutput> Run(const std::vector<std::vector<int32_t>>& paths,
                                 const OutputSelection& outputs) {
    auto batch = std::make_shared<PathBatch>();
    batch->question_offsets = {0};
    batch->AddQuestion({}, paths);
    RouteOptions options;
    options.backend = Backend::kPath;
    const auto plan = RequestPlan::Create(batch, options, 1000);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return runner_->Run(plan->BuildPart(0), outputs);
  }

  const TemporaryFolder folder_;
  std::unique_ptr<ModelRunner> runner_;
};

std::vector<float> Floats(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST_F(TorchRunnerTest, DescribesTheModel) {
  const ModelInfo& info = *runner_->info();
  EXPECT_EQ(info.name, "ranker");
  EXPECT_EQ(info.architecture, "Qwen3ForSequenceClassification");
  EXPECT_EQ(info.hidden_size, kHidden);
  EXPECT_EQ(info.vocab_size, 29);
  EXPECT_EQ(info.max_path_tokens, 300);
  EXPECT_EQ(info.num_labels, 2);
  EXPECT_EQ(info.dtype, "float32");
  EXPECT_EQ(info.device, "cpu");
  EXPECT_EQ(info.fingerprint.size(), 16U);
  // The SHA-256 of "abc", as in FIPS 180.
  EXPECT_EQ(info.vocabulary_hash, "ba7816bf8f01cfea");
  // Embedding and final norm; per layer two norms, q and k norms, q, k, v, o and three matrices of
  // the MLP; the head.
  const int64_t layer = 2 * 24 + 2 * 16 + 24 * (64 + 32 + 32) + 64 * 24 + 3 * 24 * 40;
  EXPECT_EQ(info.parameters, 29 * 24 + 24 + 2 * layer + 2 * 24);
}

TEST_F(TorchRunnerTest, TokenBudgetBoundsThePath) {
  TorchRunnerOptions options = OptionsFor(folder_.path());
  options.model.max_batch_tokens = 128;
  EXPECT_EQ((*LoadTorchRunner(options))->info()->max_path_tokens, 128);
  EXPECT_EQ(DefaultBatchTokens("cpu"), 16'384);
  EXPECT_EQ(DefaultBatchTokens("cuda:3"), 65'536);
}

TEST_F(TorchRunnerTest, ScoresAreTheHeadOnTheVectors) {
  OutputSelection outputs;
  outputs.scores = true;
  outputs.vectors = true;
  const auto output = Run({{1, 2, 3}, {4}}, outputs);
  ASSERT_TRUE(output.ok()) << output.status();
  const std::vector<float> vectors = Floats(output->vectors);
  ASSERT_EQ(vectors.size(), 2U * kHidden);
  ASSERT_EQ(output->scores.size(), 4U);
  const auto weights = MakeSyntheticWeights(*ParseModelConfig(kConfig));
  const TensorView* head = weights->Find("score.weight");
  ASSERT_NE(head, nullptr);
  std::vector<float> head_values(2 * kHidden);
  std::memcpy(head_values.data(), head->bytes.data(), head->bytes.size());
  for (size_t path = 0; path < 2; ++path) {
    for (size_t label = 0; label < 2; ++label) {
      double sum = 0;
      for (size_t i = 0; i < kHidden; ++i) {
        sum += static_cast<double>(vectors[path * kHidden + i]) * head_values[label * kHidden + i];
      }
      EXPECT_NEAR(output->scores[path * 2 + label], sum, 1e-5);
    }
  }
  EXPECT_EQ(output->finite, (std::vector<uint8_t>{1, 1}));
}

TEST_F(TorchRunnerTest, OnlyRequestedOutputsAreReturned) {
  OutputSelection outputs;
  outputs.scores = true;
  EXPECT_TRUE(Run({{1}}, outputs)->vectors.empty());
  outputs = OutputSelection();
  outputs.vectors = true;
  EXPECT_TRUE(Run({{1}}, outputs)->scores.empty());
}

TEST_F(TorchRunnerTest, VectorsComeInTheTypeAskedFor) {
  OutputSelection outputs;
  outputs.vectors = true;
  const std::vector<float> exact = Floats(Run({{1, 2}, {3}}, outputs)->vectors);
  outputs.vector_type = VectorType::kBFloat16;
  const std::string rounded = Run({{1, 2}, {3}}, outputs)->vectors;
  ASSERT_EQ(rounded.size(), exact.size() * 2);
  for (size_t i = 0; i < exact.size(); ++i) {
    uint16_t upper = 0;
    std::memcpy(&upper, &rounded[i * 2], sizeof upper);
    const uint32_t bits = static_cast<uint32_t>(upper) << 16;
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    EXPECT_NEAR(value, exact[i], std::abs(exact[i]) / 256);
  }
  outputs.vector_type = VectorType::kFloat16;
  EXPECT_EQ(Run({{1, 2}, {3}}, outputs)->vectors.size(), exact.size() * 2);
}

TEST_F(TorchRunnerTest, NormalizedVectorsHaveNormOne) {
  OutputSelection outputs;
  outputs.vectors = true;
  outputs.normalize = true;
  const std::vector<float> vectors = Floats(Run({{5, 6, 7}}, outputs)->vectors);
  double sum = 0;
  for (const float value : vectors) {
    sum += static_cast<double>(value) * value;
  }
  EXPECT_NEAR(sum, 1, 1e-5);
}

TEST_F(TorchRunnerTest, SyntheticWeightsComeFromAConfigAlone) {
  const std::string config = folder_.Join("config.json");
  const auto runner = LoadTorchRunner(OptionsFor("synthetic:" + config));
  ASSERT_TRUE(runner.ok()) << runner.status();
  EXPECT_EQ((*runner)->info()->vocabulary_hash, "");
  // The two sets of weights differ in one element.
  EXPECT_NE((*runner)->info()->fingerprint, runner_->info()->fingerprint);
}

TEST_F(TorchRunnerTest, ConfigMayComeFromElsewhere) {
  const TemporaryFolder elsewhere;
  TorchRunnerOptions options = OptionsFor(folder_.path());
  options.model.config = elsewhere.Write("config.json", kConfig);
  EXPECT_TRUE(LoadTorchRunner(options).ok());
  options.model.config = elsewhere.Join("missing.json");
  EXPECT_EQ(LoadTorchRunner(options).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(TorchRunnerTest, TheFingerprintDependsOnlyOnTheFolder) {
  HostModelOptions reading;
  reading.source = folder_.path();
  const auto host = ReadHostModel(reading);
  ASSERT_TRUE(host.ok()) << host.status();
  const std::string fingerprint = host->fingerprint;
  EXPECT_EQ(runner_->info()->fingerprint, fingerprint);
  const std::function<void(TorchRunnerOptions*)> ways[] = {
      [](TorchRunnerOptions* options) { options->model.dtype = "bfloat16"; },
      [](TorchRunnerOptions* options) { options->model.dtype = "float16"; },
      [](TorchRunnerOptions* options) { options->model.threads = 2; },
      [](TorchRunnerOptions* options) { options->model.device = "auto"; },
      [](TorchRunnerOptions* options) { options->source.name = "other"; },
      [](TorchRunnerOptions* options) { options->model.max_batch_tokens = 64; },
      [](TorchRunnerOptions* options) { options->model.policy = Policy::kReference; },
      [](TorchRunnerOptions* options) { options->kernels = ReferenceKernels(); },
  };
  for (size_t way = 0; way < std::size(ways); ++way) {
    TorchRunnerOptions options = OptionsFor(folder_.path());
    ways[way](&options);
    const auto runner = LoadTorchRunner(options);
    ASSERT_TRUE(runner.ok()) << runner.status();
    EXPECT_EQ((*runner)->info()->fingerprint, fingerprint) << way;
  }
}

TEST_F(TorchRunnerTest, TheFingerprintChangesWithSettingsThatChangeAnAnswer) {
  std::set<std::string> all = {runner_->info()->fingerprint};
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"1e-6", "1e-5"}, {"10000.0", "20000.0"}, {": 300", ": 301"}}) {
    folder_.Write("config.json", absl::StrReplaceAll(kConfig, {{from, to}}));
    all.insert((*LoadTorchRunner(OptionsFor(folder_.path())))->info()->fingerprint);
  }
  folder_.Write("config.json", kConfig);
  folder_.Write("temperatures.json", R"({"choice": {"temperature": 2}})");
  all.insert((*LoadTorchRunner(OptionsFor(folder_.path())))->info()->fingerprint);
  EXPECT_EQ(all.size(), 5U);
}

TEST_F(TorchRunnerTest, HostMemoryHoldsTheWeightsOnce) {
  std::map<std::string, int64_t> needed;
  for (const std::string dtype : {"float32", "bfloat16"}) {
    TorchRunnerOptions options = OptionsFor(folder_.path());
    options.model.dtype = dtype;
    int64_t available = 0;
    options.available_bytes = [&available](absl::string_view) { return available; };
    const absl::Status status = LoadTorchRunner(options).status();
    ASSERT_TRUE(absl::IsResourceExhausted(status)) << status;
    const std::string text(status.message());
    const size_t begin = text.find("needs ") + 6;
    needed[dtype] = std::stoll(text.substr(begin));
    available = needed[dtype];
    EXPECT_TRUE(LoadTorchRunner(options).ok());
  }
  const auto file_bytes =
      static_cast<int64_t>(std::filesystem::file_size(folder_.Join("model.safetensors")));
  const int64_t largest = 64 * kHidden;
  EXPECT_EQ(needed["float32"], file_bytes + largest * 4);
  EXPECT_EQ(needed["bfloat16"], file_bytes + largest * 2);
}

// Writes the files of sentence-transformers for a model with this pooling.
void WritePooling(const TemporaryFolder& folder, const std::string& mode) {
  std::filesystem::create_directory(folder.Join("1_Pooling"));
  folder.Write("1_Pooling/config.json", absl::StrCat("{\"pooling_mode\": \"", mode, "\"}"));
  folder.Write("modules.json", R"([
    {"path": "", "type": "sentence_transformers.models.Transformer"},
    {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])");
}

TEST_F(TorchRunnerTest, AFolderThatPoolsOtherwiseIsServedOnlyIfForced) {
  EXPECT_EQ(runner_->info()->pooling, "");
  EXPECT_FALSE(runner_->info()->folder_normalizes);
  WritePooling(folder_, "lasttoken");
  auto last = LoadTorchRunner(OptionsFor(folder_.path()));
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ((*last)->info()->pooling, "last");
  EXPECT_TRUE((*last)->info()->folder_normalizes);

  WritePooling(folder_, "mean");
  TorchRunnerOptions options = OptionsFor(folder_.path());
  const absl::Status refused = LoadTorchRunner(options).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(refused.message(), "pools by \"mean\"")) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "--pooling=last")) << refused;
  options.model.force_last_token_pooling = true;
  auto forced = LoadTorchRunner(options);
  ASSERT_TRUE(forced.ok()) << forced.status();
  EXPECT_EQ((*forced)->info()->pooling, "mean");

  // None of these settings changes a vector.
  OutputSelection outputs;
  outputs.vectors = true;
  const std::string plain = Run({{1, 2, 3}}, outputs)->vectors;
  runner_ = *std::move(forced);
  EXPECT_EQ(Run({{1, 2, 3}}, outputs)->vectors, plain);
}

TEST_F(TorchRunnerTest, AnUntiedLanguageModelWithoutItsHeadGivesVectorsAndSaysWhyNoLogProbs) {
  // The weights of a classifier contain no lm_head.weight; without score.weight they are a
  // backbone.
  const std::string language_model =
      absl::StrReplaceAll(kConfig, {{"Qwen3ForSequenceClassification", "Qwen3ForCausalLM"}});
  folder_.Write("config.json", language_model);
  auto runner = LoadTorchRunner(OptionsFor(folder_.path()));
  ASSERT_TRUE(runner.ok()) << runner.status();
  runner_ = *std::move(runner);
  EXPECT_FALSE(runner_->info()->has_lm_head);
  EXPECT_TRUE(absl::StrContains(runner_->info()->lm_head_reason, "no lm_head.weight"));
  OutputSelection outputs;
  outputs.vectors = true;
  EXPECT_TRUE(Run({{1, 2}}, outputs).ok());
  outputs.token_logprobs = true;
  EXPECT_FALSE(Run({{1, 2}}, outputs).ok());
  TorchRunnerOptions options = OptionsFor(folder_.path());
  options.model.reranker_yes_token = 1;
  options.model.reranker_no_token = 2;
  EXPECT_TRUE(absl::StrContains(LoadTorchRunner(options).status().message(),
                                "Qwen3ForCausalLM without lm_head.weight"));
}

TEST_F(TorchRunnerTest, AClassifierReportsItsPadToken) {
  EXPECT_EQ(runner_->info()->pad_token, std::nullopt);
  folder_.Write(
      "config.json",
      absl::StrReplaceAll(kConfig, {{"\"num_labels\"", "\"pad_token_id\": 7, \"num_labels\""}}));
  auto runner = LoadTorchRunner(OptionsFor(folder_.path()));
  ASSERT_TRUE(runner.ok()) << runner.status();
  EXPECT_EQ((*runner)->info()->pad_token, 7);
}

// Qwen2.5's settings for long texts extend positions beyond max_position_embeddings.
TEST_F(TorchRunnerTest, StretchedPositionsLengthenThePath) {
  folder_.Write("config.json",
                absl::StrReplaceAll(kConfig, {{"\"tie_word_embeddings\"",
                                               R"("rope_scaling": {"type": "yarn", "factor": 4.0,
                    "original_max_position_embeddings": 300}, "tie_word_embeddings")"}}));
  auto runner = LoadTorchRunner(OptionsFor(folder_.path()));
  ASSERT_TRUE(runner.ok()) << runner.status();
  EXPECT_EQ((*runner)->info()->max_path_tokens, 1200);
}

TEST_F(TorchRunnerTest, SixteenBitTypesAreNamed) {
  for (const std::string dtype : {"bfloat16", "float16"}) {
    TorchRunnerOptions options = OptionsFor(folder_.path());
    options.model.dtype = dtype;
    const auto runner = LoadTorchRunner(options);
    ASSERT_TRUE(runner.ok()) << runner.status();
    EXPECT_EQ((*runner)->info()->dtype, dtype);
  }
}

TEST_F(TorchRunnerTest, OverflowOfFloat16MarksItsPathAlone) {
  OutputSelection outputs;
  outputs.scores = true;
  EXPECT_EQ(Run({{1, 2}, {1, kLargeToken}}, outputs)->finite, (std::vector<uint8_t>{1, 1}));
  TorchRunnerOptions options = OptionsFor(folder_.path());
  options.model.dtype = "float16";
  runner_ = *LoadTorchRunner(options);
  const auto output = Run({{1, 2}, {1, kLargeToken}, {3}}, outputs);
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->finite, (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_TRUE(std::isnan(output->scores[2]));
  EXPECT_EQ(Run({{1, 2}, {kLargeToken}}, OutputSelection())->finite, (std::vector<uint8_t>{1, 0}));
}

TEST_F(TorchRunnerTest, SlidingWindowsAreExplainedAndLeaveThePathBackend) {
  EXPECT_TRUE(runner_->info()->tree_supported);
  const std::string config = folder_.Write(
      "sliding.json",
      absl::StrReplaceAll(kConfig, {{"\"vocab_size\"",
                                     R"("use_sliding_window": true, "sliding_window": 8,
                                        "max_window_layers": 1, "vocab_size")"}}));
  runner_ = *LoadTorchRunner(OptionsFor("synthetic:" + config));
  EXPECT_FALSE(runner_->info()->tree_supported);
  EXPECT_EQ(runner_->info()->support_reason, "1 of 2 layers have a sliding window of 8 tokens");
  EXPECT_TRUE(Run({{1, 2, 3}}, OutputSelection()).ok());
}

TEST_F(TorchRunnerTest, RefusesWrongOptionsByName) {
  struct WrongOption {
    std::string ModelOptions::*field;
    const char* value;
    absl::StatusCode code;
  };
  for (const WrongOption& wrong : {
           WrongOption{&ModelOptions::device, "gpu", absl::StatusCode::kInvalidArgument},
           WrongOption{&ModelOptions::device, "cuda:x", absl::StatusCode::kInvalidArgument},
           WrongOption{&ModelOptions::device, "cuda:127", absl::StatusCode::kFailedPrecondition},
           WrongOption{&ModelOptions::dtype, "float8", absl::StatusCode::kInvalidArgument},
       }) {
    TorchRunnerOptions options = OptionsFor(folder_.path());
    options.model.*wrong.field = wrong.value;
    const absl::Status status = LoadTorchRunner(options).status();
    EXPECT_EQ(status.code(), wrong.code) << wrong.value;
    EXPECT_TRUE(absl::StrContains(status.message(), wrong.value)) << status;
  }
  EXPECT_EQ(LoadTorchRunner(OptionsFor(folder_.Join("nowhere"))).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(TorchRunnerTest, ScoresWithoutAHeadAreRefused) {
  const std::string config = folder_.Write(
      "plain.json",
      absl::StrReplaceAll(kConfig, {{"Qwen3ForSequenceClassification", "Qwen3Model"}}));
  auto runner = LoadTorchRunner(OptionsFor("synthetic:" + config));
  ASSERT_TRUE(runner.ok()) << runner.status();
  runner_ = *std::move(runner);
  OutputSelection outputs;
  outputs.scores = true;
  EXPECT_EQ(Run({{1}}, outputs).status(), absl::InvalidArgumentError("ranker has no scoring head"));
}

// Tests that load a model once more, with its routes set up.
class PreparedRunnerTest : public ::testing::Test {
 protected:
  std::shared_ptr<const ModelInfo> Load(std::optional<Policy> policy, bool with_kernels) {
    WriteCheckpoint(folder_);
    TorchRunnerOptions options = OptionsFor(folder_.path());
    options.prepare_routes = true;
    options.model.policy = policy;
    options.model.route_costs = folder_.Join("costs.json");
    options.build = "test";
    if (with_kernels) {
      options.kernels = ReferenceKernels();
    }
    const auto runner = LoadTorchRunner(options);
    EXPECT_TRUE(runner.ok()) << runner.status();
    return (*runner)->info();
  }

  const TemporaryFolder folder_;
};

TEST_F(PreparedRunnerTest, ASmallModelOnACpuIsMeasured) {
  const auto info = Load(std::nullopt, /*with_kernels=*/false);
  EXPECT_EQ(info->num_layers, 2);
  EXPECT_EQ(info->layer_weights, 2 * 24 * (64 + 32) + 3 * 24 * 40);
  EXPECT_EQ(info->attention_size, 64);
  EXPECT_EQ(info->default_policy, Policy::kMeasured);
  EXPECT_TRUE(absl::StrContains(info->policy_reason, "measuring is forecast to take"))
      << info->policy_reason;
  ASSERT_NE(info->route_costs, nullptr);
  EXPECT_EQ(info->route_costs->backends.size(), 3U);
  EXPECT_FALSE(info->fused_supported);
  EXPECT_TRUE(absl::StrContains(info->fused_reason, "no CUDA device")) << info->fused_reason;
}

TEST_F(PreparedRunnerTest, MeasuresEveryBackendAndKeepsTheCosts) {
  const auto measured = Load(std::nullopt, /*with_kernels=*/true);
  EXPECT_EQ(measured->default_policy, Policy::kMeasured);
  ASSERT_EQ(measured->route_costs->backends.size(), 4U);
  for (const auto& [backend, cost] : measured->route_costs->backends) {
    EXPECT_GT(ForecastMs(cost, {1, 1, 1'000, 100'000}), 0) << BackendName(backend);
  }
  const auto again = Load(Policy::kReference, /*with_kernels=*/true);
  EXPECT_EQ(again->default_policy, Policy::kReference);
  ASSERT_NE(again->route_costs, nullptr);
  EXPECT_EQ(again->route_costs->backends.at(Backend::kFused).token_ms,
            measured->route_costs->backends.at(Backend::kFused).token_ms);
}

}  // namespace
}  // namespace canopy
