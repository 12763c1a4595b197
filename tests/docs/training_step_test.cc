// Compiles and runs the step that docs/TRAINING.md shows. tests/repo compares the two texts.
#include <cstdint>
#include <memory>
#include <vector>

#include "ATen/Parallel.h"
#include "ATen/TensorOperators.h"
#include "ATen/ops/arange.h"
#include "ATen/ops/log_sigmoid.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "c10/core/GradMode.h"
#include "core/checkpoint/synthetic.h"
#include "core/scoring/reward.h"
#include "core/training/path_batch_encoder.h"
#include "core/training/trainable_encoder.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

// One step of a reward model: in each question, candidate 0 should score above candidate 1.
absl::StatusOr<double> Step(const TrainableEncoder& encoder, const at::Tensor& score_weight,
                            const PaddedPaths& paths) {
  RouteOptions routing;  // AUTO: dense, segmented or path, as the counts say
  TrainingOptions training;
  training.recompute_layers = true;
  CANOPY_ASSIGN_OR_RETURN(
      const at::Tensor vectors,  // [questions, candidates, hidden]
      EncodePathBatch(encoder, paths, routing, /*max_batch_tokens=*/16'384, training));
  const at::Tensor scores = RewardHead(score_weight).Score(vectors.flatten(0, 1));
  const at::Tensor margins = scores.view({-1, 2}).select(1, 0) - scores.view({-1, 2}).select(1, 1);
  const at::Tensor loss = at::log_sigmoid(margins).mean().neg();
  loss.backward();
  const c10::NoGradGuard no_gradients;
  for (const auto& [name, parameter] : encoder.parameters()) {
    parameter.sub_(parameter.grad(), /*alpha=*/0.1);
    parameter.mutable_grad() = at::Tensor();
  }
  return loss.item<double>();
}

std::unique_ptr<TrainableEncoder> SmallEncoder() {
  at::set_num_threads(1);
  ModelConfig config;
  config.vocab_size = 10;
  config.hidden_size = 16;
  config.intermediate_size = 24;
  config.num_layers = 2;
  config.num_query_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 8;
  config.max_position_embeddings = 64;
  config.rms_norm_eps = 1e-6;
  config.rope.theta = 10000;
  const auto synthetic = MakeSyntheticWeights(config);
  EXPECT_TRUE(synthetic.ok()) << synthetic.status();
  const auto weights = MatchWeights(*synthetic, config);
  EXPECT_TRUE(weights.ok()) << weights.status();
  auto encoder = TrainableEncoder::Create(config, *weights, at::TensorOptions().dtype(at::kFloat));
  EXPECT_TRUE(encoder.ok()) << encoder.status();
  return *std::move(encoder);
}

TEST(TrainingStepTest, LossFalls) {
  const auto encoder = SmallEncoder();
  // Two questions of two candidates each; the better ones end in 7.
  const std::vector<int32_t> input_ids = {1, 2, 7, 1, 2, 3, 4, 7, 0, 4, 5, 6};
  const std::vector<uint8_t> attention_mask = {1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1};
  const std::vector<int32_t> candidate_end = {2, 2, 1, 2};
  const std::vector<int32_t> question_index = {0, 0, 1, 1};
  const std::vector<int32_t> candidate_index = {0, 1, 0, 1};
  const std::vector<uint8_t> candidate_mask = {1, 1, 1, 1};
  const PaddedPaths paths = {input_ids,
                             attention_mask,
                             candidate_end,
                             question_index,
                             candidate_index,
                             candidate_mask,
                             4,
                             3,
                             2,
                             2};
  const at::Tensor score_weight = at::arange(16, at::kFloat).sin_().view({1, 16});
  const absl::StatusOr<double> first = Step(*encoder, score_weight, paths);
  ASSERT_TRUE(first.ok()) << first.status();
  absl::StatusOr<double> last = first;
  for (int step = 0; step < 20; ++step) {
    last = Step(*encoder, score_weight, paths);
    ASSERT_TRUE(last.ok()) << last.status();
  }
  EXPECT_LT(*last, 0.5 * *first);
}

}  // namespace
}  // namespace canopy
