#include "core/training/path_batch_encoder.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "core/model/testing/small_encoder.h"
#include "core/tree/path_batch.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

// Three paths in two questions. Question 0 uses slots 0 and 2 of three; question 1 uses slot 1.
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
  const auto encoder = MakeSmallEncoder();
  const PaddedExample example;
  auto alone = std::make_shared<PathBatch>();
  alone->question_offsets = {0};
  alone->AddQuestion({}, {{1, 2, 6, 7}, {1, 2, 3}, {4, 5}});
  const at::Tensor expected = EncodeInRequestOrder(*encoder, PlanSmall(alone, Backend::kPath));
  for (const int64_t max_batch_tokens : {1000, 4}) {
    RouteOptions options;
    options.backend = Backend::kDense;
    const auto vectors = EncodePathBatch(*encoder, example.paths(), options, max_batch_tokens);
    ASSERT_TRUE(vectors.ok()) << vectors.status();
    ASSERT_EQ(vectors->sizes(), at::IntArrayRef({2, 3, kSmallHidden}));
    const at::Tensor flat = vectors->view({6, kSmallHidden});
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
  const auto encoder = MakeSmallEncoder();
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
