// Compares gradients through trees with those of paths that run one by one.
#include "core/training/trainable_encoder.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ATen/Context.h"
#include "ATen/Parallel.h"
#include "ATen/autocast_mode.h"
#include "ATen/ops/arange.h"
#include "ATen/ops/cat.h"
#include "absl/strings/match.h"
#include "c10/core/GradMode.h"
#include "core/checkpoint/synthetic.h"
#include "core/checkpoint/testing/small_config.h"
#include "core/model/testing/random_batch.h"
#include "core/model/tree_encoder.h"
#include "core/training/path_batch_encoder.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

constexpr double kMaxError = 1e-4;

// Query and key heads are normalized, as in Qwen3.
ModelConfig NormedConfig() { return SmallConfig(/*vocab_size=*/11); }

ModelConfig BiasedConfig() {
  ModelConfig config = NormedConfig();
  config.qk_norm = false;
  config.qkv_bias = config.output_bias = true;
  config.num_kv_heads = 4;
  return config;
}

ModelConfig SparseConfig() {
  ModelConfig config = NormedConfig();
  config.num_layers = 2;
  config.experts.sparse_layers = {true, true};
  config.experts.num_experts = 4;
  config.experts.experts_per_token = 2;
  config.experts.intermediate_size = 16;
  config.experts.normalize_weights = true;
  return config;
}

WeightMap SyntheticWeights(const ModelConfig& config) {
  const auto synthetic = MakeSyntheticWeights(config);
  EXPECT_TRUE(synthetic.ok()) << synthetic.status();
  auto matched = MatchWeights(*synthetic, config);
  EXPECT_TRUE(matched.ok()) << matched.status();
  return *std::move(matched);
}

// Matrices are twenty times as large as those of SyntheticWeights, so that layers change the result
// measurably.
std::unique_ptr<TrainableEncoder> MakeEncoder(const ModelConfig& config) {
  at::set_num_threads(1);
  auto encoder = TrainableEncoder::Create(config, SyntheticWeights(config),
                                          at::TensorOptions().dtype(at::kFloat));
  EXPECT_TRUE(encoder.ok()) << encoder.status();
  const c10::NoGradGuard no_gradients;
  for (const auto& [name, parameter] : (*encoder)->parameters()) {
    if (parameter.dim() > 1) {
      parameter.mul_(20);
    }
  }
  return *std::move(encoder);
}

struct TestRoute {
  Backend backend;
  Packing packing = Packing::kAuto;
};
constexpr TestRoute kRoutes[] = {{Backend::kPath},
                                 {Backend::kDense, Packing::kAuto},
                                 {Backend::kDense, Packing::kPadded},
                                 {Backend::kSegmented, Packing::kAuto},
                                 {Backend::kSegmented, Packing::kPadded}};

TreePlan PlanOf(const std::shared_ptr<const PathBatch>& batch, const TestRoute& route) {
  RouteOptions options;
  options.backend = route.backend;
  options.packing = route.packing;
  options.hidden_size = 24;
  options.fused_supported = true;
  const auto plan = RequestPlan::Create(batch, options, 1 << 20);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan->BuildPart(0);
}

// Returns the contribution of `path` to the loss: its vector times irregular numbers.
at::Tensor LossOf(const at::Tensor& vector, int64_t path) {
  return vector.mul(at::arange(vector.size(0), at::kFloat).add_(7.3 * path).mul_(2.1).sin_()).sum();
}

at::Tensor LossOf(const TrainableEncoder& encoder, const TreePlan& plan,
                  const TrainingOptions& training) {
  const auto vectors = encoder.Encode(plan, plan.endpoints, training);
  EXPECT_TRUE(vectors.ok()) << vectors.status();
  std::vector<at::Tensor> losses;
  for (size_t i = 0; i < plan.paths.size(); ++i) {
    losses.push_back(LossOf((*vectors)[static_cast<int64_t>(i)], plan.paths[i]).view(1));
  }
  return at::cat(losses).sum();
}

// Returns the gradients of the parameters and clears them.
std::map<std::string, at::Tensor> TakeGradients(const TrainableEncoder& encoder) {
  std::map<std::string, at::Tensor> gradients;
  for (const auto& [name, parameter] : encoder.parameters()) {
    EXPECT_TRUE(parameter.grad().defined()) << name;
    gradients[name] = parameter.grad();
    parameter.mutable_grad() = at::Tensor();
  }
  return gradients;
}

std::map<std::string, at::Tensor> Gradients(const TrainableEncoder& encoder,
                                            const std::shared_ptr<const PathBatch>& batch,
                                            const TestRoute& route,
                                            const TrainingOptions& training = {}) {
  LossOf(encoder, PlanOf(batch, route), training).backward();
  return TakeGradients(encoder);
}

// Computes the expected gradients: each path runs alone, so nothing is shared or batched.
std::map<std::string, at::Tensor> GradientsOfPathsAlone(const TrainableEncoder& encoder,
                                                        const PathBatch& batch) {
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    for (int32_t path = batch.question_offsets[question];
         path < batch.question_offsets[question + 1]; ++path) {
      auto alone = std::make_shared<PathBatch>();
      alone->question_offsets = {0};
      const auto suffix = batch.Tokens(batch.suffixes[path]);
      alone->AddQuestion(batch.Tokens(batch.prefixes[question]), {{suffix.begin(), suffix.end()}});
      const TreePlan plan = PlanOf(alone, {Backend::kPath});
      const auto vector = encoder.Encode(plan, plan.endpoints, {});
      EXPECT_TRUE(vector.ok()) << vector.status();
      LossOf((*vector)[0], path).backward();
    }
  }
  return TakeGradients(encoder);
}

void ExpectNear(const std::map<std::string, at::Tensor>& actual,
                const std::map<std::string, at::Tensor>& expected, double max_error) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, gradient] : expected) {
    const double norm = gradient.norm().item<double>();
    // The gradient of an expert is zero if no token chose it.
    EXPECT_TRUE(norm > 0 || absl::StrContains(name, ".experts.")) << name;
    EXPECT_LE(actual.at(name).sub(gradient).norm().item<double>(), max_error * norm) << name;
  }
}

class GradientTest : public ::testing::TestWithParam<ModelConfig (*)()> {};

TEST_P(GradientTest, EveryBackendHasThoseOfPathsAlone) {
  const auto encoder = MakeEncoder(GetParam()());
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    const auto batch = RandomBatch(seed, 3, 30);
    const auto expected = GradientsOfPathsAlone(*encoder, *batch);
    for (const TestRoute& route : kRoutes) {
      SCOPED_TRACE(BackendName(route.backend));
      ExpectNear(Gradients(*encoder, batch, route), expected, kMaxError);
    }
  }
}

TEST_P(GradientTest, RecomputedLayersChangeNothing) {
  const auto encoder = MakeEncoder(GetParam()());
  const auto batch = RandomBatch(4, 3, 30);
  for (const double dropout : {0.0, 0.4}) {
    for (const TestRoute& route : kRoutes) {
      at::manual_seed(11);
      const auto expected = Gradients(*encoder, batch, route, {dropout, false});
      at::manual_seed(11);
      SCOPED_TRACE(BackendName(route.backend));
      ExpectNear(Gradients(*encoder, batch, route, {dropout, true}), expected, 1e-6);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GradientTest,
                         ::testing::Values(NormedConfig, BiasedConfig, SparseConfig));

TEST(TrainableEncoderTest, SlidingWindowsHaveThoseOfPathsAlone) {
  ModelConfig config = NormedConfig();
  config.sliding_window = 5;
  config.sliding_layers = {true, false, true};
  const auto encoder = MakeEncoder(config);
  const auto batch = RandomBatch(2, 3, 30);
  ExpectNear(Gradients(*encoder, batch, {Backend::kPath}), GradientsOfPathsAlone(*encoder, *batch),
             kMaxError);
}

// Enables bfloat16 autocast for the duration of a scope.
class AutocastScope {
 public:
  AutocastScope() {
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, true);
  }
  ~AutocastScope() {
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;
};

// Returns the norm of the difference over the norm of `exact`, over all parameters.
double RelativeError(const std::map<std::string, at::Tensor>& actual,
                     const std::map<std::string, at::Tensor>& exact) {
  double difference = 0;
  double norm = 0;
  for (const auto& [name, gradient] : exact) {
    difference += actual.at(name).sub(gradient).square().sum().item<double>();
    norm += gradient.square().sum().item<double>();
  }
  return std::sqrt(difference / norm);
}

// Gradients through trees may not be less accurate than those of paths that run alone, as for
// 16-bit results.
TEST(TrainableEncoderTest, Float32WeightsRunUnderBFloat16Autocast) {
  for (const ModelConfig& config : {NormedConfig(), BiasedConfig()}) {
    const auto encoder = MakeEncoder(config);
    const auto batch = RandomBatch(3, 5, 30);
    const auto exact = GradientsOfPathsAlone(*encoder, *batch);
    double error_of_paths = 0;
    {
      const AutocastScope autocast;
      error_of_paths = RelativeError(GradientsOfPathsAlone(*encoder, *batch), exact);
    }
    EXPECT_GT(error_of_paths, 1e-3);  // shows that the products ran in bfloat16
    for (const TestRoute& route : kRoutes) {
      for (const bool recomputes : {false, true}) {
        at::Tensor loss;
        {
          const AutocastScope autocast;
          loss = LossOf(*encoder, PlanOf(batch, route), {0, recomputes});
        }
        // The backward pass runs outside autocast, as is usual in Python.
        loss.backward();
        EXPECT_LE(RelativeError(TakeGradients(*encoder), exact), 1.25 * error_of_paths)
            << BackendName(route.backend) << (recomputes ? ", recomputed" : "");
      }
    }
  }
}

TEST(TrainableEncoderTest, DropoutIsSeededAndWarnsOnceThatTreesShareIt) {
  const auto encoder = MakeEncoder(NormedConfig());
  const TrainingOptions training = {0.5, false};
  ::testing::internal::CaptureStderr();
  const auto loss = [&](uint64_t seed, Backend backend) {
    at::manual_seed(seed);
    return LossOf(*encoder, PlanOf(RandomBatch(5, 3, 30), {backend}), training).item<float>();
  };
  for (const Backend backend : {Backend::kPath, Backend::kDense, Backend::kSegmented}) {
    EXPECT_EQ(loss(1, backend), loss(1, backend)) << BackendName(backend);
    EXPECT_NE(loss(1, backend), loss(2, backend)) << BackendName(backend);
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  // The warning is logged once per process, and this test is the first one to cause it.
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  EXPECT_TRUE(absl::StrContains(log, "shared_attention_dropout")) << log;
}

TEST(TrainableEncoderTest, RefusesWhatHasNoGradients) {
  const auto encoder = MakeEncoder(NormedConfig());
  const TreePlan fused = PlanOf(RandomBatch(1, 2, 9), {Backend::kFused});
  ASSERT_EQ(fused.backend, Backend::kFused);
  EXPECT_EQ(encoder->Encode(fused, fused.endpoints, {}).status(),
            absl::FailedPreconditionError(
                "backend fused computes no gradients; path, dense and segmented do"));
  TreePlan plan = PlanOf(RandomBatch(1, 2, 9), {Backend::kDense});
  for (const double dropout : {-0.1, 1.0}) {
    EXPECT_EQ(encoder->Encode(plan, plan.endpoints, {dropout, false}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  plan.grid.token_ids[0] = 11;
  EXPECT_EQ(encoder->Encode(plan, plan.endpoints, {}).status(),
            absl::InvalidArgumentError("token 11 is outside the vocabulary of 11"));
}

TEST(TrainableEncoderTest, ComputesWhatTheEncoderForInferenceComputes) {
  const ModelConfig config = BiasedConfig();
  const auto options = at::TensorOptions().dtype(at::kFloat);
  const auto trainable = TrainableEncoder::Create(config, SyntheticWeights(config), options);
  const auto encoder = TreeEncoder::Create(config, SyntheticWeights(config), options);
  ASSERT_TRUE(trainable.ok() && encoder.ok());
  const TreePlan plan = PlanOf(RandomBatch(6, 3, 30), {Backend::kDense});
  const at::Tensor expected = *(*encoder)->Encode(plan, plan.endpoints);
  EXPECT_TRUE((*trainable)->Encode(plan, plan.endpoints, {})->allclose(expected, 1e-4, 1e-5));
  const c10::NoGradGuard no_gradients;
  EXPECT_FALSE((*trainable)->Encode(plan, plan.endpoints, {})->requires_grad());
}

TEST(TrainableEncoderTest, PathBatchesInPartsAddUpTheirGradients) {
  const auto encoder = MakeEncoder(NormedConfig());
  const std::vector<int32_t> input_ids = {1, 2, 3, 0, 4, 5, 0, 0, 1, 2, 6, 7};
  const std::vector<uint8_t> attention_mask = {1, 1, 1, 0, 1, 1, 0, 0, 1, 1, 1, 1};
  const std::vector<int32_t> candidate_end = {2, 1, 3};
  const std::vector<int32_t> question_index = {0, 1, 0};
  const std::vector<int32_t> candidate_index = {2, 1, 0};
  const std::vector<uint8_t> candidate_mask = {1, 0, 1, 0, 1, 0};
  const PaddedPaths padded = {input_ids,
                              attention_mask,
                              candidate_end,
                              question_index,
                              candidate_index,
                              candidate_mask,
                              3,
                              4,
                              2,
                              3};
  PathBatch paths;
  paths.question_offsets = {0};
  // The paths are in the order of their slots, because LossOf uses the same numbering.
  paths.AddQuestion({}, {{1, 2, 6, 7}, {1, 2, 3}, {4, 5}});
  const auto expected = GradientsOfPathsAlone(*encoder, paths);
  for (const int64_t max_batch_tokens : {1000, 4}) {
    RouteOptions options;
    options.backend = Backend::kDense;
    const auto vectors = EncodePathBatch(*encoder, padded, options, max_batch_tokens, {});
    ASSERT_TRUE(vectors.ok()) << vectors.status();
    const at::Tensor flat = vectors->flatten(0, 1);
    LossOf(flat[0], 0).add(LossOf(flat[2], 1)).add(LossOf(flat[4], 2)).backward();
    ExpectNear(TakeGradients(*encoder), expected, kMaxError);
  }
}

}  // namespace
}  // namespace canopy
