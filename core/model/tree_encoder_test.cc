#include "core/model/tree_encoder.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "ATen/Parallel.h"
#include "ATen/ops/linalg_vector_norm.h"
#include "absl/strings/str_cat.h"
#include "core/model/path_batch_encoder.h"
#include "core/model/random_batch.h"
#include "core/model/small_config.h"
#include "core/model/synthetic.h"
#include "core/tree/tree_plan.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

constexpr int64_t kHidden = 24;
constexpr int64_t kVocab = 29;

// Synthetic weights twenty times as large, so that layers matter; the embedding of `nan_token` is
// NaN (-1 = none).
std::unique_ptr<TreeEncoder> MakeEncoder(int64_t nan_token = -1) {
  at::set_num_threads(1);
  const ModelConfig config = SmallConfig(kVocab);
  const auto synthetic = MakeSyntheticWeights(config);
  EXPECT_TRUE(synthetic.ok()) << synthetic.status();
  auto values = std::make_shared<std::vector<std::vector<float>>>();
  std::vector<TensorView> views;
  for (TensorView view : synthetic->tensors()) {
    std::vector<float>& data = values->emplace_back(view.bytes.size() / sizeof(float));
    std::memcpy(data.data(), view.bytes.data(), view.bytes.size());
    for (float& value : data) {
      value *= view.shape.size() > 1 ? 20.0F : 1.0F;
    }
    if (view.name == "embed_tokens.weight" && nan_token >= 0) {
      data[static_cast<size_t>(nan_token * kHidden)] = std::numeric_limits<float>::quiet_NaN();
    }
    view.bytes = {reinterpret_cast<const uint8_t*>(data.data()), view.bytes.size()};
    views.push_back(std::move(view));
  }
  const auto source = WeightSource::Create(std::move(views), values);
  EXPECT_TRUE(source.ok()) << source.status();
  const auto weights = MatchWeights(*source, config);
  EXPECT_TRUE(weights.ok()) << weights.status();
  auto encoder = TreeEncoder::Create(config, *weights, at::TensorOptions().dtype(at::kFloat));
  EXPECT_TRUE(encoder.ok()) << encoder.status();
  return *std::move(encoder);
}

TreePlan PlanOf(const std::shared_ptr<const PathBatch>& batch, Backend backend,
                Packing packing = Packing::kAuto) {
  RouteOptions options;
  options.backend = backend;
  options.packing = packing;
  options.hidden_size = kHidden;
  const auto plan = RequestPlan::Create(batch, options, 1 << 20);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan->BuildPart(0);
}

// Vectors in request order.
at::Tensor Encode(const TreeEncoder& encoder, const TreePlan& plan) {
  const auto encoded = encoder.Encode(plan, plan.endpoints);
  EXPECT_TRUE(encoded.ok()) << encoded.status();
  at::Tensor ordered = encoded->clone();
  for (size_t i = 0; i < plan.paths.size(); ++i) {
    ordered[plan.paths[i]].copy_((*encoded)[static_cast<int64_t>(i)]);
  }
  return ordered;
}

double LargestRelativeError(const at::Tensor& actual, const at::Tensor& expected) {
  const auto norm = [](const at::Tensor& rows) {
    return at::linalg_vector_norm(rows, 2, at::IntArrayRef{1});
  };
  return norm(actual.sub(expected)).div(norm(expected)).max().item<double>();
}

TEST(TreeEncoderTest, TreeBackendsMatchPathsAlone) {
  const auto encoder = MakeEncoder();
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    const auto batch = RandomBatch(seed, 4, 60);
    const at::Tensor expected = Encode(*encoder, PlanOf(batch, Backend::kPath));
    for (const Backend backend : {Backend::kDense, Backend::kSegmented}) {
      for (const Packing packing : {Packing::kAuto, Packing::kPadded}) {
        const at::Tensor actual = Encode(*encoder, PlanOf(batch, backend, packing));
        EXPECT_LE(LargestRelativeError(actual, expected), 1e-4)
            << BackendName(backend) << " seed " << seed;
      }
    }
  }
}

TEST(TreeEncoderTest, RepeatsBitForBit) {
  const auto encoder = MakeEncoder();
  const auto batch = RandomBatch(3, 4, 60);
  for (const Backend backend : {Backend::kPath, Backend::kDense, Backend::kSegmented}) {
    const TreePlan plan = PlanOf(batch, backend);
    EXPECT_TRUE(Encode(*encoder, plan).equal(Encode(*encoder, plan))) << BackendName(backend);
  }
}

TEST(TreeEncoderTest, AnySlotsMayBeAskedFor) {
  const auto encoder = MakeEncoder();
  const TreePlan plan = PlanOf(RandomBatch(4, 2, 40), Backend::kDense);
  std::vector<int32_t> all(static_cast<size_t>(plan.computed_tokens()));
  std::iota(all.begin(), all.end(), 0);
  const at::Tensor everywhere = *encoder->Encode(plan, all);
  const at::Tensor endpoints = *encoder->Encode(plan, plan.endpoints);
  for (size_t i = 0; i < plan.endpoints.size(); ++i) {
    const at::Tensor row = endpoints.narrow(0, static_cast<int64_t>(i), 1);
    EXPECT_LE(LargestRelativeError(row, everywhere.narrow(0, plan.endpoints[i], 1)), 1e-5);
  }
  EXPECT_EQ(encoder->Encode(plan, {})->sizes(), at::IntArrayRef({0, kHidden}));
}

TEST(TreeEncoderTest, NanInOneQuestionLeavesOtherRowsUntouched) {
  const auto clean = MakeEncoder();
  const auto poisoned = MakeEncoder(/*nan_token=*/17);
  auto batch = std::make_shared<PathBatch>();
  batch->question_offsets = {0};
  const std::vector<int32_t> prefix = {1, 2, 3, 4, 5, 6, 7, 8};
  batch->AddQuestion(prefix, {{1, 2}, {3, 4}, {5}});
  batch->AddQuestion(prefix, {{1, 2}, {17, 4}, {5}});
  batch->AddQuestion(prefix, {{2, 2}, {8, 4}, {5}});
  for (const Backend backend : {Backend::kDense, Backend::kSegmented, Backend::kPath}) {
    const TreePlan plan = PlanOf(batch, backend, Packing::kPadded);
    ASSERT_EQ(plan.backend, backend);
    const at::Tensor expected = Encode(*clean, plan);
    const at::Tensor actual = Encode(*poisoned, plan);
    for (const int64_t begin : {0, 6}) {
      EXPECT_TRUE(actual.narrow(0, begin, 3).equal(expected.narrow(0, begin, 3)))
          << BackendName(backend);
    }
    EXPECT_TRUE(actual[4].isnan().all().item<bool>()) << BackendName(backend);
  }
}

TEST(TreeEncoderTest, RefusesTokensOutsideTheVocabulary) {
  const auto encoder = MakeEncoder();
  TreePlan plan = PlanOf(RandomBatch(1, 1, 9), Backend::kPath);
  for (const int32_t token : {-1, static_cast<int32_t>(kVocab)}) {
    plan.grid.token_ids[0] = token;
    EXPECT_EQ(encoder->Encode(plan, plan.endpoints).status(),
              absl::InvalidArgumentError(
                  absl::StrCat("token ", token, " is outside the vocabulary of 29")));
  }
}

// Three paths in two questions; question 0 uses slots 0 and 2 of three, question 1 slot 1.
struct PaddedExample {
  std::vector<int32_t> input_ids = {1, 2, 3, 0, 4, 5, 0, 0, 1, 2, 6, 7};
  std::vector<uint8_t> attention_mask = {1, 1, 1, 0, 1, 1, 0, 0, 1, 1, 1, 1};
  std::vector<int32_t> candidate_end = {2, 1, 3};
  std::vector<int32_t> question_index = {0, 1, 0};
  std::vector<int32_t> candidate_index = {2, 1, 0};
  std::vector<uint8_t> candidate_mask = {1, 0, 1, 0, 1, 0};

  PaddedPaths paths() const {
    return {input_ids,
            attention_mask,
            candidate_end,
            question_index,
            candidate_index,
            candidate_mask,
            3,
            4,
            2,
            3};
  }
};

TEST(EncodePathBatchTest, PutsVectorsInTheirSlotsAndZerosElsewhere) {
  const auto encoder = MakeEncoder();
  const PaddedExample example;
  auto alone = std::make_shared<PathBatch>();
  alone->question_offsets = {0};
  alone->AddQuestion({}, {{1, 2, 6, 7}, {1, 2, 3}, {4, 5}});
  const at::Tensor expected = Encode(*encoder, PlanOf(alone, Backend::kPath));
  for (const int64_t max_batch_tokens : {1000, 4}) {
    RouteOptions options;
    options.backend = Backend::kDense;
    const auto vectors = EncodePathBatch(*encoder, example.paths(), options, max_batch_tokens);
    ASSERT_TRUE(vectors.ok()) << vectors.status();
    ASSERT_EQ(vectors->sizes(), at::IntArrayRef({2, 3, kHidden}));
    const at::Tensor flat = vectors->view({6, kHidden});
    const std::vector<int64_t> slots = {0, 2, 4};
    for (int64_t path = 0; path < 3; ++path) {
      EXPECT_LE(LargestRelativeError(flat.narrow(0, slots[static_cast<size_t>(path)], 1),
                                     expected.narrow(0, path, 1)),
                1e-5);
    }
    for (const int64_t empty : {1, 3, 5}) {
      EXPECT_EQ(flat[empty].abs().max().item<float>(), 0.0F);
    }
  }
}

TEST(EncodePathBatchTest, RefusesMalformedBatches) {
  const auto encoder = MakeEncoder();
  PaddedExample example;
  example.candidate_end[1] = 3;
  EXPECT_EQ(EncodePathBatch(*encoder, example.paths(), {}, 1000).status().code(),
            absl::StatusCode::kInvalidArgument);
  example = PaddedExample();
  example.input_ids[0] = 29;
  EXPECT_EQ(EncodePathBatch(*encoder, example.paths(), {}, 1000).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace canopy
