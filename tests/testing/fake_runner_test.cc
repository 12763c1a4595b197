#include "tests/testing/fake_runner.h"

#include <cmath>

#include "gtest/gtest.h"

namespace canopy::testing {
namespace {

// Returns the paths 1 2 3 | 1 2 4 | 1 5, as drawn in core/tree/tree_plan.h, as one forest row with
// one slot of padding.
TreePlan ForestPlan() {
  TreePlan plan;
  plan.backend = Backend::kDense;
  plan.grid.rows = 1;
  plan.grid.columns = 6;
  plan.grid.token_ids = {1, 2, 3, 4, 5, 0};
  plan.grid.position_ids = {0, 1, 2, 2, 1, 0};
  plan.grid.exit = {4, 3, 2, 3, 4, 5};
  plan.paths = {0, 1, 2};
  plan.endpoints = {2, 3, 4};
  plan.prefix_tokens = {1, 1, 1};
  return plan;
}

TreePlan PathPlan() {
  TreePlan plan;
  plan.grid.rows = 3;
  plan.grid.columns = 3;
  plan.grid.token_ids = {1, 2, 3, 1, 2, 4, 1, 5, 0};
  plan.grid.position_ids = {0, 1, 2, 0, 1, 2, 0, 1, 0};
  plan.paths = {0, 1, 2};
  plan.endpoints = {2, 5, 7};
  plan.prefix_tokens = {1, 1, 1};
  return plan;
}

const std::vector<float> kExpected = {FakeScore({1, 2, 3}, 0), FakeScore({1, 2, 4}, 0),
                                      FakeScore({1, 5}, 0)};

OutputSelection Scores() {
  OutputSelection outputs;
  outputs.scores = true;
  return outputs;
}

TEST(FakeRunnerTest, ReadsPathsFromForestAndFromPathGrids) {
  FakeRunner runner;
  EXPECT_EQ(runner.Run(ForestPlan(), Scores())->scores, kExpected);
  EXPECT_EQ(runner.Run(PathPlan(), Scores())->scores, kExpected);
}

TEST(FakeRunnerTest, ReadsTokensFromForestAndFromPathGrids) {
  OutputSelection outputs;
  outputs.token_logprobs = true;
  outputs.values = true;
  FakeRunner runner;
  for (const TreePlan& plan : {ForestPlan(), PathPlan()}) {
    const auto output = runner.Run(plan, outputs);
    ASSERT_TRUE(output.ok()) << output.status();
    EXPECT_EQ(output->tokens.entries.offsets, (std::vector<int64_t>{0, 2, 4, 5}));
    EXPECT_EQ(output->tokens.entries.first_token, (std::vector<int32_t>{1, 1, 1}));
    EXPECT_EQ(output->tokens.logprobs,
              (std::vector<float>{FakeLogprob({1}, 2, 1), FakeLogprob({1, 2}, 3, 1),
                                  FakeLogprob({1}, 2, 1), FakeLogprob({1, 2}, 4, 1),
                                  FakeLogprob({1}, 5, 1)}));
    EXPECT_EQ(output->values.values,
              (std::vector<float>{FakeValue({1, 2}), FakeValue({1, 2, 3}), FakeValue({1, 2}),
                                  FakeValue({1, 2, 4}), FakeValue({1, 5})}));
  }
}

TEST(FakeRunnerTest, RefusesWrongPositions) {
  TreePlan plan = ForestPlan();
  plan.grid.position_ids[3] = 3;
  EXPECT_EQ(FakeRunner().Run(plan, Scores()).status().code(), absl::StatusCode::kInternal);
}

TEST(FakeRunnerTest, PoisonSpreadsOverForestRowsOnly) {
  auto controls = std::make_shared<FakeControls>();
  FakeRunner runner(FakeModelInfo(), controls);
  controls->PoisonToken(4);
  EXPECT_EQ(runner.Run(ForestPlan(), Scores())->finite, std::vector<uint8_t>({0, 0, 0}));
  const auto alone = runner.Run(PathPlan(), Scores());
  EXPECT_EQ(alone->finite, std::vector<uint8_t>({1, 0, 1}));
  EXPECT_TRUE(std::isnan(alone->scores[1]));
  EXPECT_EQ(alone->scores[2], kExpected[2]);
}

TEST(FakeRunnerTest, VectorsAreExactInEveryType) {
  FakeRunner runner;
  OutputSelection outputs;
  outputs.vectors = true;
  const std::vector<float> expected = FakeVector({1, 2, 4}, 8);
  outputs.vector_type = VectorType::kBFloat16;
  const auto output = runner.Run(PathPlan(), outputs);
  ASSERT_EQ(output->vectors.size(), 3U * 8 * 2);
  for (size_t i = 0; i < 8; ++i) {
    uint16_t half = 0;
    std::memcpy(&half, output->vectors.data() + (8 + i) * 2, 2);
    const uint32_t bits = uint32_t{half} << 16;
    float value = 0;
    std::memcpy(&value, &bits, 4);
    EXPECT_EQ(value, expected[i]);
  }
}

TEST(FakeRunnerTest, FailsOnDemand) {
  auto controls = std::make_shared<FakeControls>();
  FakeRunner runner(FakeModelInfo(), controls);
  controls->LimitSlots(8);
  EXPECT_TRUE(runner.Run(ForestPlan(), Scores()).ok());
  EXPECT_EQ(runner.Run(PathPlan(), Scores()).status().code(), absl::StatusCode::kResourceExhausted);
  controls->FailWith(absl::UnavailableError("gone"));
  EXPECT_EQ(runner.Run(ForestPlan(), Scores()).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(controls->forwards(), 3);
}

}  // namespace
}  // namespace canopy::testing
