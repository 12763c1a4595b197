// Compares the fused backend, with reference kernels on the CPU, with the path backend.
#include "core/model/fused_backend.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ATen/Parallel.h"
#include "ATen/ops/linalg_vector_norm.h"
#include "ATen/ops/randn.h"
#include "absl/strings/match.h"
#include "c10/core/InferenceMode.h"
#include "c10/util/Exception.h"
#include "core/checkpoint/synthetic.h"
#include "core/checkpoint/testing/small_config.h"
#include "core/checkpoint/weight_schema.h"
#include "core/model/decoder.h"
#include "core/model/testing/random_batch.h"
#include "core/model/torch_layer_ops.h"
#include "core/model/tree_context.h"
#include "core/ops/cuda_kernel_ops.h"
#include "core/ops/graph_recorder.h"
#include "core/ops/kernel_ops.h"
#include "core/ops/testing/reference_kernel_ops.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

// Has three query heads per key head.
ModelConfig GroupedConfig() {
  ModelConfig config = SmallConfig(/*vocab_size=*/11);
  config.num_query_heads = 6;
  config.head_dim = 8;
  return config;
}

struct FamilyCase {
  const char* name;
  ModelConfig config;
};

// Returns configurations that cover the differences between families: head norms, biases, and
// experts in some or all layers.
std::vector<FamilyCase> FamilyCases() {
  ModelConfig plain = GroupedConfig();
  plain.qk_norm = false;
  ModelConfig qkv_bias = plain;
  qkv_bias.qkv_bias = true;
  ModelConfig all_biases = GroupedConfig();
  all_biases.qkv_bias = all_biases.output_bias = true;
  ModelConfig some_sparse = GroupedConfig();
  some_sparse.experts = {{true, false, true}, 5, 2, 16, true};
  ModelConfig all_sparse = some_sparse;
  all_sparse.experts.sparse_layers = {true, true, true};
  return {{"qwen3", GroupedConfig()}, {"llama", plain},          {"qwen2", qkv_bias},
          {"biases", all_biases},     {"some_moe", some_sparse}, {"all_moe", all_sparse}};
}

// Returns synthetic weights multiplied by twenty, so that layers change the result measurably.
DecoderWeights LargeWeights(const ModelConfig& config) {
  at::set_num_threads(1);
  const auto synthetic = MakeSyntheticWeights(config);
  EXPECT_TRUE(synthetic.ok()) << synthetic.status();
  const auto matched = MatchWeights(*synthetic, config);
  EXPECT_TRUE(matched.ok()) << matched.status();
  auto weights = LoadDecoderWeights(config, *matched, at::TensorOptions().dtype(at::kFloat));
  EXPECT_TRUE(weights.ok()) << weights.status();
  const c10::InferenceMode inference;
  weights->embedding.mul_(20);
  for (const LayerWeights& layer : weights->layers) {
    const HeadProjection& heads = std::get<AttentionWeights>(layer.mixer).heads;
    std::vector<at::Tensor> matrices = {heads.weight, layer.output};
    if (const auto* mlp = std::get_if<GatedMlpWeights>(&layer.channel); mlp != nullptr) {
      matrices.insert(matrices.end(), {mlp->gate_up, mlp->down});
    } else {
      const auto& experts = std::get<ExpertWeights>(layer.channel);
      matrices.insert(matrices.end(), {experts.gate_up, experts.down});
    }
    for (const at::Tensor& matrix : matrices) {
      matrix.mul_(20);
    }
    for (const at::Tensor& bias : {heads.bias, layer.output_bias}) {
      if (bias.defined()) {
        bias.copy_(at::randn(bias.sizes()));
      }
    }
  }
  return *std::move(weights);
}

TreePlan PlanOf(const std::shared_ptr<const PathBatch>& batch, Backend backend) {
  RouteOptions options;
  options.backend = backend;
  options.fused_supported = true;
  const auto plan = RequestPlan::Create(batch, options, 1 << 20);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan->BuildPart(0);
}

std::unique_ptr<FusedBackend> MakeFused(const ModelConfig& config, const DecoderWeights& weights) {
  auto fused = FusedBackend::Create(config, weights, at::TensorOptions().dtype(at::kFloat),
                                    ReferenceKernels());
  EXPECT_TRUE(fused.ok()) << fused.status();
  return *std::move(fused);
}

at::Tensor RunPaths(const ModelConfig& config, const DecoderWeights& weights,
                    const TreePlan& plan) {
  const auto context =
      TreeContext::Create(plan, plan.endpoints, {weights.rotary, at::kFloat, 0, {}});
  EXPECT_TRUE(context.ok()) << context.status();
  TorchLayerOps ops(config, *context);
  return Decode(weights, ops);
}

double LargestRelativeError(const at::Tensor& actual, const at::Tensor& expected) {
  const auto norm = [](const at::Tensor& rows) {
    return at::linalg_vector_norm(rows, 2, at::IntArrayRef{1});
  };
  return norm(actual.sub(expected)).div(norm(expected)).max().item<double>();
}

TEST(FusedBackendTest, MatchesPathsAlone) {
  const c10::InferenceMode inference;
  for (const auto& [name, config] : FamilyCases()) {
    const DecoderWeights weights = LargeWeights(config);
    const auto fused = MakeFused(config, weights);
    for (uint32_t seed = 1; seed <= 3; ++seed) {
      const auto batch = RandomBatch(seed, 3, 30);
      const TreePlan plan = PlanOf(batch, Backend::kFused);
      ASSERT_EQ(plan.backend, Backend::kFused);
      const auto actual = fused->Forward(plan, plan.endpoints);
      ASSERT_TRUE(actual.ok()) << actual.status();
      const TreePlan paths = PlanOf(batch, Backend::kPath);
      ASSERT_EQ(plan.paths, paths.paths);
      EXPECT_LE(LargestRelativeError(*actual, RunPaths(config, weights, paths)), 1e-4)
          << name << " seed " << seed;
    }
  }
}

TEST(FusedBackendTest, AnySlotsMayBeReadOrNone) {
  const c10::InferenceMode inference;
  const ModelConfig config = GroupedConfig();
  const DecoderWeights weights = LargeWeights(config);
  const auto fused = MakeFused(config, weights);
  const TreePlan plan = PlanOf(RandomBatch(2, 2, 20), Backend::kFused);
  std::vector<int32_t> backwards;
  for (auto slot = static_cast<int32_t>(plan.computed_tokens()) - 1; slot >= 0; --slot) {
    backwards.push_back(slot);
  }
  const at::Tensor everywhere = *fused->Forward(plan, backwards);
  const at::Tensor endpoints = *fused->Forward(plan, plan.endpoints);
  for (size_t path = 0; path < plan.endpoints.size(); ++path) {
    const int64_t row = plan.computed_tokens() - 1 - plan.endpoints[path];
    EXPECT_LE(LargestRelativeError(endpoints.narrow(0, static_cast<int64_t>(path), 1),
                                   everywhere.narrow(0, row, 1)),
              1e-5);
  }
  EXPECT_EQ(fused->Forward(plan, {})->sizes(), at::IntArrayRef({0, config.hidden_size}));
}

TEST(FusedBackendTest, RefusesSlotsOutsideAndOtherGrids) {
  const c10::InferenceMode inference;
  const ModelConfig config = GroupedConfig();
  const auto fused = MakeFused(config, LargeWeights(config));
  const auto batch = RandomBatch(1, 2, 20);
  const TreePlan plan = PlanOf(batch, Backend::kFused);
  for (const int32_t slot : {-1, static_cast<int32_t>(plan.computed_tokens())}) {
    EXPECT_EQ(fused->Forward(plan, {slot}).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(fused->Forward(PlanOf(batch, Backend::kPath), {}).status().code(),
            absl::StatusCode::kInternal);
}

TEST(FusedBackendTest, SaysWhichModelsItDoesNotRun) {
  const c10::InferenceMode inference;
  const auto options = at::TensorOptions().dtype(at::kBFloat16);
  ModelConfig config = GroupedConfig();
  const DecoderWeights weights = LargeWeights(config);
  config.sliding_window = 77;
  const absl::Status sliding =
      FusedBackend::Create(config, weights, options, ReferenceKernels()).status();
  EXPECT_EQ(sliding.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(sliding.message(), "sliding window of 77")) << sliding;
}

TEST(FusedBackendTest, TellsTheKernelsNoInnerSizeWhereAllLayersAreSparse) {
  for (const auto& [name, config] : FamilyCases()) {
    const KernelModel model = KernelModelOf(config, LargeWeights(config));
    EXPECT_EQ(model.intermediate_size, std::string(name) == "all_moe" ? 0 : 40) << name;
    EXPECT_EQ(model.hidden_size, 24);
  }
}

// The fused backend applies a rotary scale other than one only to the scores.
TEST(FusedBackendTest, RotaryScaleIsInTheScores) {
  const c10::InferenceMode inference;
  const ModelConfig config = GroupedConfig();
  DecoderWeights weights = LargeWeights(config);
  weights.rotary.scale = 1.3;
  const auto fused = MakeFused(config, weights);
  const auto batch = RandomBatch(4, 2, 30);
  const TreePlan plan = PlanOf(batch, Backend::kFused);
  EXPECT_LE(LargestRelativeError(*fused->Forward(plan, plan.endpoints),
                                 RunPaths(config, weights, PlanOf(batch, Backend::kPath))),
            1e-4);
}

// Records a graph by storing its body, and replays it by running the body again.
class FakeRecorder : public GraphRecorder {
 public:
  struct Log {
    int recorded = 0;
    int replayed = 0;
    int failures_left = 0;  // number of next recordings that fail
  };

  explicit FakeRecorder(Log* log) : log_(log) {}

  std::unique_ptr<RecordedGraph> Record(const std::function<void()>& body) override {
    if (log_->failures_left > 0) {
      --log_->failures_left;
      TORCH_CHECK(false, "capture failed");
    }
    body();
    ++log_->recorded;
    return std::make_unique<Graph>(body, log_);
  }

  int64_t FreeBytes() const override { return 1000 - log_->recorded; }

 private:
  class Graph : public RecordedGraph {
   public:
    Graph(std::function<void()> body, Log* log) : body_(std::move(body)), log_(log) {}
    void Replay() override {
      ++log_->replayed;
      body_();
    }

   private:
    const std::function<void()> body_;
    Log* const log_;
  };

  Log* const log_;
};

// Returns a backend with graphs that uses the reference kernels.
std::unique_ptr<FusedBackend> MakeRecording(const ModelConfig& config,
                                            const DecoderWeights& weights, FakeRecorder::Log* log) {
  auto ops =
      ReferenceKernels()(KernelModelOf(config, weights), at::TensorOptions().dtype(at::kFloat));
  EXPECT_TRUE(ops.ok()) << ops.status();
  return std::make_unique<FusedBackend>(config, weights, *std::move(ops),
                                        std::make_unique<FakeRecorder>(log));
}

// Forwards alternate between sizes, so that each finds the values that others left in the shared
// buffers.
TEST(FusedBackendTest, ReplayedGraphsComputeWhatPlainForwardsDo) {
  const c10::InferenceMode inference;
  const ModelConfig config = GroupedConfig();
  const DecoderWeights weights = LargeWeights(config);
  const auto plain = MakeFused(config, weights);
  FakeRecorder::Log log;
  const auto recording = MakeRecording(config, weights, &log);
  for (const uint32_t seed : {1U, 2U, 3U, 4U, 2U, 1U}) {
    const TreePlan plan =
        PlanOf(RandomBatch(seed, static_cast<int32_t>(seed), 20), Backend::kFused);
    const auto expected = plain->Forward(plan, plan.endpoints);
    const auto actual = recording->Forward(plan, plan.endpoints);
    ASSERT_TRUE(actual.ok()) << actual.status();
    EXPECT_LE(LargestRelativeError(*actual, *expected), 1e-5) << seed;
    EXPECT_EQ(recording->Forward(plan, {})->sizes(), at::IntArrayRef({0, config.hidden_size}));
  }
  EXPECT_EQ(log.replayed, 12);
  EXPECT_GT(log.recorded, 1);
  EXPECT_LE(log.recorded, 4);
  EXPECT_EQ(recording->num_graphs(), log.recorded);
  EXPECT_EQ(recording->graph_bytes(), log.recorded);
  EXPECT_EQ(plain->num_graphs(), 0);
  EXPECT_FALSE(plain->RecordNextGraph());
}

TEST(FusedBackendTest, LongForwardsRunWithoutAGraph) {
  const c10::InferenceMode inference;
  const ModelConfig config = GroupedConfig();
  FakeRecorder::Log log;
  const auto recording = MakeRecording(config, LargeWeights(config), &log);
  auto batch = std::make_shared<PathBatch>();
  batch->question_offsets = {0};
  batch->AddQuestion({}, {std::vector<int32_t>(static_cast<size_t>(GraphLimits().max_tokens) + 1)});
  const TreePlan plan = PlanOf(batch, Backend::kFused);
  ASSERT_EQ(plan.computed_tokens(), GraphLimits().max_tokens + 1);
  EXPECT_TRUE(recording->Forward(plan, plan.endpoints).ok());
  EXPECT_EQ(log.recorded, 0);
}

TEST(FusedBackendTest, AFailedRecordingFailsItsForwardAlone) {
  const c10::InferenceMode inference;
  const ModelConfig config = GroupedConfig();
  FakeRecorder::Log log;
  log.failures_left = 2;
  const auto recording = MakeRecording(config, LargeWeights(config), &log);
  const TreePlan plan = PlanOf(RandomBatch(1, 2, 20), Backend::kFused);
  EXPECT_THROW((void)recording->Forward(plan, plan.endpoints), c10::Error);
  EXPECT_THROW(recording->RecordNextGraph(), c10::Error);
  EXPECT_EQ(recording->num_graphs(), 0);
  EXPECT_TRUE(recording->Forward(plan, plan.endpoints).ok());
  EXPECT_EQ(recording->num_graphs(), 1);
}

// Returns the CUDA kernels' error for a model of this shape and dtype on a CPU.
std::string Refusal(const KernelModel& model, at::ScalarType dtype) {
  const absl::Status status = MakeCudaKernelOps(model, at::TensorOptions().dtype(dtype)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  return std::string(status.message());
}

TEST(CudaKernelOpsTest, NamesWhatTheKernelsDoNotTake) {
  KernelModel model;
  model.hidden_size = 24;
  model.intermediate_size = 40;
  model.num_query_heads = 16;
  model.num_kv_heads = 2;
  for (const int64_t head_dim : {64, 128}) {
    model.head_dim = head_dim;
    for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
      EXPECT_TRUE(absl::StrContains(Refusal(model, dtype), "CUDA"));
    }
  }
  EXPECT_TRUE(absl::StrContains(Refusal(model, at::kFloat), "not Float"));
  KernelModel odd = model;
  odd.head_dim = 96;
  EXPECT_TRUE(absl::StrContains(Refusal(odd, at::kHalf), "not 16 on 2 of 96"));
  odd = model;
  odd.num_kv_heads = 1;
  EXPECT_TRUE(absl::StrContains(Refusal(odd, at::kHalf), "not 16 on 1 of 128"));
  odd = model;
  odd.hidden_size = 28;
  EXPECT_TRUE(absl::StrContains(Refusal(odd, at::kHalf), "not hidden 28"));
  odd = model;
  odd.intermediate_size = 41;
  EXPECT_TRUE(absl::StrContains(Refusal(odd, at::kHalf), "intermediate 41"));
}

}  // namespace
}  // namespace canopy
