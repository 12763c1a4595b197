#include "core/scoring/set_head.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ATen/ops/ones.h"
#include "ATen/ops/tensor.h"
#include "core/checkpoint/decision_layout.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

constexpr int64_t kHidden = 24;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> Normal(std::mt19937* random, int64_t count, float mean, float deviation) {
  std::normal_distribution<float> normal(mean, deviation);
  std::vector<float> values(static_cast<size_t>(count));
  std::generate(values.begin(), values.end(), [&] { return normal(*random); });
  return values;
}

// Returns weights large enough that the interaction between candidates changes the scores
// measurably.
WeightMap RandomWeights() {
  std::mt19937 random(7);
  auto owner = std::make_shared<std::vector<std::vector<float>>>();
  std::vector<TensorView> tensors;
  for (const TensorSpec& spec : DecisionHeadTensors(kHidden)) {
    const bool is_matrix = spec.shape.size() == 2;
    const bool is_norm = !is_matrix && spec.name.find("norm") != std::string::npos &&
                         spec.name.find("weight") != std::string::npos;
    const auto columns = static_cast<float>(spec.shape.back());
    owner->push_back(Normal(&random, spec.shape[0] * (is_matrix ? spec.shape[1] : 1),
                            is_norm ? 1 : 0, is_matrix ? 2 / std::sqrt(columns) : 0.2F));
    const std::vector<float>& values = owner->back();
    tensors.push_back({spec.name,
                       DType::kFloat32,
                       spec.shape,
                       {reinterpret_cast<const uint8_t*>(values.data()), values.size() * 4}});
  }
  WeightMap map{*WeightSource::Create(tensors, owner), {}, true, false, {}};
  for (const TensorView& tensor : tensors) {
    map.tensors.emplace(tensor.name, tensor);
  }
  return map;
}

// Random questions of the given sizes.
struct Questions {
  std::vector<float> vectors;
  std::vector<uint8_t> present;
  std::vector<int32_t> offsets = {0};

  Questions(std::mt19937* random, const std::vector<int32_t>& sizes) {
    for (const int32_t size : sizes) {
      offsets.push_back(offsets.back() + size);
    }
    vectors = Normal(random, offsets.back() * kHidden, 0, 1);
    present.assign(static_cast<size_t>(offsets.back()), 1);
  }
};

class SetHeadTest : public ::testing::Test {
 protected:
  std::vector<float> Scores(const Questions& questions) {
    auto scores = head_->ScoreSets({questions.vectors, questions.present, questions.offsets});
    EXPECT_TRUE(scores.ok()) << scores.status();
    return *std::move(scores);
  }

  const WeightMap weights_ = RandomWeights();
  const absl::StatusOr<SetHead> head_ = SetHead::Load(weights_, at::kCPU);
  std::mt19937 random_{11};
};

void ExpectNear(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], 1e-4 * (1 + std::abs(expected[i]))) << i;
  }
}

TEST_F(SetHeadTest, PermutingCandidatesPermutesScores) {
  for (const int32_t size : {2, 3, 10, 113, 255}) {
    const Questions questions(&random_, {size});
    const std::vector<float> scores = Scores(questions);
    std::vector<size_t> order(static_cast<size_t>(size));
    std::iota(order.begin(), order.end(), 0);
    for (int round = 0; round < 5; ++round) {
      std::shuffle(order.begin(), order.end(), random_);
      Questions shuffled = questions;
      std::vector<float> expected;
      for (size_t i = 0; i < order.size(); ++i) {
        std::copy_n(questions.vectors.begin() + static_cast<int64_t>(order[i]) * kHidden, kHidden,
                    shuffled.vectors.begin() + static_cast<int64_t>(i) * kHidden);
        expected.push_back(scores[order[i]]);
      }
      ExpectNear(Scores(shuffled), expected);
    }
  }
}

TEST_F(SetHeadTest, CandidatesSeeEachOther) {
  Questions questions(&random_, {3});
  const float before = Scores(questions)[0];
  questions.vectors[2 * kHidden] += 1;
  EXPECT_GT(std::abs(Scores(questions)[0] - before), 1e-3);
}

// Questions are padded next to larger ones, in the same group and in different groups.
TEST_F(SetHeadTest, QuestionsDoNotSeeEachOther) {
  std::vector<int32_t> sizes = {1, 255, 2, 3, 129, 7};
  for (int i = 0; i < 90; ++i) {
    sizes.push_back(1 + i % 200);
  }
  const Questions all(&random_, sizes);
  const std::vector<float> scores = Scores(all);
  for (size_t question = 0; question < sizes.size(); ++question) {
    Questions alone(&random_, {sizes[question]});
    const int64_t begin = all.offsets[question];
    std::copy_n(all.vectors.begin() + begin * kHidden, alone.vectors.size(), alone.vectors.begin());
    ExpectNear(Scores(alone), {scores.begin() + begin, scores.begin() + begin + sizes[question]});
  }
}

TEST_F(SetHeadTest, WhatIsLeftOutChangesNothing) {
  Questions questions(&random_, {4, 2});
  Questions without(&random_, {3, 0});
  const auto begin = questions.vectors.begin();
  std::copy_n(begin, kHidden, without.vectors.begin());
  std::copy_n(begin + 2 * kHidden, 2 * kHidden, without.vectors.begin() + kHidden);
  const std::vector<float> expected = Scores(without);
  questions.present = {1, 0, 1, 1, 0, 0};
  for (size_t path = 0; path < questions.present.size(); ++path) {
    if (questions.present[path] == 0) {
      std::fill_n(begin + static_cast<int64_t>(path) * kHidden, kHidden, kNan);
    }
  }
  const std::vector<float> scores = Scores(questions);
  ExpectNear({scores[0], scores[2], scores[3]}, expected);
  EXPECT_TRUE(std::isnan(scores[1]) && std::isnan(scores[4]) && std::isnan(scores[5]));
}

// Attention would otherwise make the whole question NaN.
TEST_F(SetHeadTest, AVectorThatOverflowsCostsItsOwnScoreAlone) {
  Questions questions(&random_, {4, 2});
  Questions without(&random_, {3, 2});
  const auto begin = questions.vectors.begin();
  std::copy_n(begin, kHidden, without.vectors.begin());
  std::copy_n(begin + 2 * kHidden, 4 * kHidden, without.vectors.begin() + kHidden);
  const std::vector<float> expected = Scores(without);
  // The first value overflows in proj_in, the second in the squares of the following layer norm.
  for (const float large : {3e38F, 1e25F}) {
    std::fill_n(begin + kHidden, kHidden, large);
    const std::vector<float> scores = Scores(questions);
    EXPECT_TRUE(std::isnan(scores[1]));
    ExpectNear({scores[0], scores[2], scores[3], scores[4], scores[5]}, expected);
  }
}

TEST_F(SetHeadTest, EmptySlotsScoreFarBelow) {
  const at::Tensor vectors = at::ones({2, 3, kHidden});
  const at::Tensor mask = at::tensor({1, 1, 0, 1, 0, 0}).view({2, 3}).to(at::kBool);
  const at::Tensor scores = head_->Score(vectors, mask);
  EXPECT_EQ(scores[0][2].item<float>(), -1e4F);
  EXPECT_EQ(scores[1][1].item<float>(), -1e4F);
  EXPECT_GT(scores[1][0].item<float>(), -1e3F);
}

}  // namespace
}  // namespace canopy
