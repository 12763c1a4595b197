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
#include "core/checkpoint/synthetic.h"
#include "core/checkpoint/testing/small_config.h"
#include "core/model/testing/random_batch.h"
#include "core/model/testing/small_encoder.h"
#include "core/tree/tree_plan.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

TEST(TreeEncoderTest, TreeBackendsMatchPathsAlone) {
  const auto encoder = MakeSmallEncoder();
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    const auto batch = RandomBatch(seed, 4, 60);
    const at::Tensor expected = EncodeInRequestOrder(*encoder, PlanSmall(batch, Backend::kPath));
    for (const Backend backend : {Backend::kDense, Backend::kSegmented}) {
      for (const Packing packing : {Packing::kAuto, Packing::kPadded}) {
        const at::Tensor actual =
            EncodeInRequestOrder(*encoder, PlanSmall(batch, backend, packing));
        EXPECT_LE(LargestRelativeError(actual, expected), 1e-4)
            << BackendName(backend) << " seed " << seed;
      }
    }
  }
}

TEST(TreeEncoderTest, RepeatsBitForBit) {
  const auto encoder = MakeSmallEncoder();
  const auto batch = RandomBatch(3, 4, 60);
  for (const Backend backend : {Backend::kPath, Backend::kDense, Backend::kSegmented}) {
    const TreePlan plan = PlanSmall(batch, backend);
    EXPECT_TRUE(EncodeInRequestOrder(*encoder, plan).equal(EncodeInRequestOrder(*encoder, plan)))
        << BackendName(backend);
  }
}

TEST(TreeEncoderTest, AnySlotsMayBeAskedFor) {
  const auto encoder = MakeSmallEncoder();
  const TreePlan plan = PlanSmall(RandomBatch(4, 2, 40), Backend::kDense);
  std::vector<int32_t> all(static_cast<size_t>(plan.computed_tokens()));
  std::iota(all.begin(), all.end(), 0);
  const at::Tensor everywhere = *encoder->Encode(plan, all);
  const at::Tensor endpoints = *encoder->Encode(plan, plan.endpoints);
  for (size_t i = 0; i < plan.endpoints.size(); ++i) {
    const at::Tensor row = endpoints.narrow(0, static_cast<int64_t>(i), 1);
    EXPECT_LE(LargestRelativeError(row, everywhere.narrow(0, plan.endpoints[i], 1)), 1e-5);
  }
  EXPECT_EQ(encoder->Encode(plan, {})->sizes(), at::IntArrayRef({0, kSmallHidden}));
}

TEST(TreeEncoderTest, NanInOneQuestionLeavesOtherRowsUntouched) {
  const auto clean = MakeSmallEncoder();
  const auto poisoned = MakeSmallEncoder(/*nan_token=*/17);
  auto batch = std::make_shared<PathBatch>();
  batch->question_offsets = {0};
  const std::vector<int32_t> prefix = {1, 2, 3, 4, 5, 6, 7, 8};
  batch->AddQuestion(prefix, {{1, 2}, {3, 4}, {5}});
  batch->AddQuestion(prefix, {{1, 2}, {17, 4}, {5}});
  batch->AddQuestion(prefix, {{2, 2}, {8, 4}, {5}});
  for (const Backend backend : {Backend::kDense, Backend::kSegmented, Backend::kPath}) {
    const TreePlan plan = PlanSmall(batch, backend, Packing::kPadded);
    ASSERT_EQ(plan.backend, backend);
    const at::Tensor expected = EncodeInRequestOrder(*clean, plan);
    const at::Tensor actual = EncodeInRequestOrder(*poisoned, plan);
    for (const int64_t begin : {0, 6}) {
      EXPECT_TRUE(actual.narrow(0, begin, 3).equal(expected.narrow(0, begin, 3)))
          << BackendName(backend);
    }
    EXPECT_TRUE(actual[4].isnan().all().item<bool>()) << BackendName(backend);
  }
}

TEST(TreeEncoderTest, RefusesTokensOutsideTheVocabulary) {
  const auto encoder = MakeSmallEncoder();
  TreePlan plan = PlanSmall(RandomBatch(1, 1, 9), Backend::kPath);
  for (const int32_t token : {-1, static_cast<int32_t>(kSmallVocab)}) {
    plan.grid.token_ids[0] = token;
    EXPECT_EQ(encoder->Encode(plan, plan.endpoints).status(),
              absl::InvalidArgumentError(
                  absl::StrCat("token ", token, " is outside the vocabulary of 29")));
  }
}

}  // namespace
}  // namespace canopy
