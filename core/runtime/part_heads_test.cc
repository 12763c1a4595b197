// The outputs that a path lacks if a head overflows, and if a hidden state is not finite.
#include "core/runtime/part_heads.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ATen/ops/full.h"
#include "ATen/ops/ones.h"
#include "ATen/ops/tensor.h"
#include "c10/core/InferenceMode.h"
#include "core/tree/tree_plan.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

constexpr int64_t kHidden = 4;
constexpr int64_t kVocab = 16;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
using Sets = std::vector<OutputSet>;

// Three paths of two tokens each after one prefix token, path by path. The rows of hidden states
// are the three endpoints, then the tokens before them in any order.
class PartHeadsTest : public ::testing::Test {
 protected:
  PartHeadsTest() {
    auto batch = std::make_shared<PathBatch>();
    batch->question_offsets = {0};
    batch->AddQuestion(std::vector<int32_t>{1},
                       std::vector<std::vector<int32_t>>{{2, 3}, {4, 5}, {6, 7}});
    RouteOptions route;
    route.backend = Backend::kPath;
    plan_ = RequestPlan::Create(batch, route, 1000)->BuildPart(0);
    heads_.language_model.emplace(at::ones({kVocab, kHidden}).mul_(0.5));
    heads_.reward.emplace(at::ones({1, kHidden}));
  }

  // Computes outputs from hidden states of ones, which `change` may modify.
  PartOutput Compute(const OutputSelection& outputs,
                     const std::function<void(const at::Tensor&)>& change = nullptr,
                     at::ScalarType type = at::kFloat) {
    const c10::InferenceMode inference;
    const OutputRows rows =
        PlanOutputRows(plan_, {outputs.distributions(), outputs.values, outputs.scope});
    at::Tensor hidden = at::ones({static_cast<int64_t>(rows.slots.size()), kHidden}, type);
    if (change) {
      change(hidden);
    }
    return ComputeOutputs(heads_, {hidden, rows, 3}, outputs);
  }

  TreePlan plan_;
  ModelHeads heads_;
};

OutputSelection Everything() {
  OutputSelection outputs;
  for (const OutputSpec& spec : kOutputs) {
    Ask(spec.output, 2, &outputs);
  }
  return outputs;
}

const std::vector<uint8_t> kAllFinite = {1, 1, 1};

TEST_F(PartHeadsTest, NoOutputIsMissingIfAllNumbersAreFinite) {
  const PartOutput output = Compute(Everything());
  EXPECT_EQ(output.finite, kAllFinite);
  EXPECT_TRUE(output.inner_finite.empty());
  EXPECT_EQ(output.unscored, (Sets{0, 0, 0}));
  // All logits are equal.
  EXPECT_EQ(output.tokens.ranks, (std::vector<int32_t>{3, 4, 5, 6, 7, 8}));
}

// A request with such a temperature once lost 42 of 44 candidates: 1 / temperature is infinite.
TEST_F(PartHeadsTest, ATinyTemperatureCostsOnlyTheOutputsThatUseIt) {
  OutputSelection outputs = Everything();
  outputs.temperature = 1e-38F;
  const PartOutput output = Compute(outputs, [](const at::Tensor& hidden) { hidden.mul_(100); });
  EXPECT_EQ(output.finite, kAllFinite);
  EXPECT_TRUE(output.inner_finite.empty());
  for (const OutputSet unscored : output.unscored) {
    EXPECT_EQ(unscored, BitOf(Output::kTokenLogprobs) | BitOf(Output::kEntropy) |
                            BitOf(Output::kTopLogprobs));
  }
}

TEST_F(PartHeadsTest, TheSmallestTemperatureIsAccepted) {
  OutputSelection outputs = Everything();
  outputs.temperature = 1e-30F;
  EXPECT_EQ(Compute(outputs, [](const at::Tensor& hidden) { hidden.mul_(1e6); }).unscored,
            (Sets{0, 0, 0}));
}

TEST_F(PartHeadsTest, AVectorThatOverflowsFloat16CostsTheVector) {
  OutputSelection outputs = Everything();
  outputs.vector_type = VectorType::kFloat16;
  const PartOutput output = Compute(outputs, [](const at::Tensor& hidden) { hidden[1][2] = 1e5; });
  EXPECT_EQ(output.finite, kAllFinite);
  EXPECT_EQ(output.unscored, (Sets{0, BitOf(Output::kVectors), 0}));
}

TEST_F(PartHeadsTest, AZeroVectorHasNoDirection) {
  OutputSelection outputs = Everything();
  const auto zero = [](const at::Tensor& hidden) { hidden[2].zero_(); };
  EXPECT_EQ(Compute(outputs, zero).unscored, (Sets{0, 0, 0}));
  outputs.normalize = true;
  const PartOutput output = Compute(outputs, zero);
  EXPECT_EQ(output.finite, kAllFinite);
  EXPECT_EQ(output.unscored, (Sets{0, 0, BitOf(Output::kVectors)}));
}

TEST_F(PartHeadsTest, AnOverflowingRewardCostsTheScoreAndItsValues) {
  heads_.reward.emplace(at::full({1, kHidden}, 1e38));
  OutputSelection outputs;
  outputs.vectors = outputs.scores = outputs.values = true;
  // 4 x 0.5 x 1e38 is finite.
  const PartOutput output = Compute(outputs, [](const at::Tensor& hidden) {
    hidden.mul_(0.5);
    hidden[0].mul_(10);
  });
  EXPECT_EQ(output.finite, kAllFinite);
  EXPECT_EQ(output.unscored, (Sets{BitOf(Output::kScores) | BitOf(Output::kValues), 0, 0}));
}

TEST_F(PartHeadsTest, ARerankerThatOverflowsCostsTheScore) {
  heads_.reranker.emplace(at::full({2, kHidden}, 1e38));
  OutputSelection outputs;
  outputs.vectors = outputs.scores = true;
  const PartOutput output = Compute(outputs, [](const at::Tensor& hidden) {
    hidden.mul_(0.5);
    hidden[1].mul_(10);
  });
  EXPECT_EQ(output.unscored, (Sets{0, BitOf(Output::kScores), 0}));
}

TEST_F(PartHeadsTest, LogitsThatOverflowCostAllThatReadsThem) {
  heads_.language_model.emplace(at::full({kVocab, kHidden}, 1e38));
  const PartOutput output =
      Compute(Everything(), [](const at::Tensor& hidden) { hidden.mul_(10); });
  for (const OutputSet unscored : output.unscored) {
    EXPECT_EQ(unscored, BitOf(Output::kTokenLogprobs) | BitOf(Output::kEntropy) |
                            BitOf(Output::kVocabRange) | BitOf(Output::kTopLogprobs) |
                            BitOf(Output::kTokenRanks));
  }
}

TEST_F(PartHeadsTest, LogprobsWhoseSumOverflowsAreMissing) {
  // The tokens of every path have a logit of 0; that of token 0 makes each log-prob -2e38.
  at::Tensor weight = at::full({kVocab, kHidden}, 0);
  weight[0].fill_(1);
  heads_.language_model.emplace(weight);
  OutputSelection outputs;
  outputs.token_logprobs = true;
  outputs.entropy = true;
  outputs.temperature = 1e-30F;
  const PartOutput output = Compute(outputs, [](const at::Tensor& hidden) { hidden.mul_(5e7); });
  for (const float logprob : output.tokens.logprobs) {
    EXPECT_TRUE(std::isfinite(logprob));
  }
  EXPECT_EQ(output.unscored, (Sets{BitOf(Output::kTokenLogprobs), BitOf(Output::kTokenLogprobs),
                                   BitOf(Output::kTokenLogprobs)}));
}

TEST_F(PartHeadsTest, AHiddenStateAtTheEndIsThePaths) {
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const float bad : {kNan, std::numeric_limits<float>::infinity()}) {
      const PartOutput output = Compute(
          OutputSelection(), [bad](const at::Tensor& hidden) { hidden[1][3] = bad; }, type);
      EXPECT_EQ(output.finite, (std::vector<uint8_t>{1, 0, 1}));
    }
  }
}

// The NaN may come from another path, so the question runs again.
TEST_F(PartHeadsTest, AnEarlierHiddenStateThatIsNotFiniteIsNotAnOverflow) {
  OutputSelection outputs;
  outputs.scores = outputs.token_logprobs = true;
  const OutputRows rows = PlanOutputRows(plan_, {true, false, outputs.scope});
  // The row after the second token of path 1.
  const DistributionReads& reads = *rows.distributions;
  const int32_t row = reads.rows[reads.entry_distribution[reads.entries.offsets[1] + 1]];
  ASSERT_GE(row, 3);
  const PartOutput output =
      Compute(outputs, [row](const at::Tensor& hidden) { hidden[row][0] = kNan; });
  EXPECT_EQ(output.finite, kAllFinite);
  EXPECT_EQ(output.inner_finite, (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(output.unscored, (Sets{0, BitOf(Output::kTokenLogprobs), 0}));

  outputs = OutputSelection();
  outputs.values = true;
  EXPECT_EQ(
      Compute(outputs, [](const at::Tensor& hidden) { hidden[3][0] = kNan; }).inner_finite.size(),
      3U);
}

}  // namespace
}  // namespace canopy
