#include "core/model/experts.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "ATen/CPUGeneratorImpl.h"
#include "ATen/Parallel.h"
#include "ATen/ops/randn.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

constexpr int64_t kHidden = 16;
constexpr int64_t kIntermediate = 8;
constexpr int64_t kExperts = 5;

ExpertsConfig ConfigOf(int64_t experts_per_token, bool normalize_weights) {
  ExpertsConfig config;
  config.num_experts = kExperts;
  config.experts_per_token = experts_per_token;
  config.intermediate_size = kIntermediate;
  config.normalize_weights = normalize_weights;
  return config;
}

ExpertWeights RandomWeights(uint64_t seed) {
  at::set_num_threads(1);
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return {at::randn({kExperts, kHidden}, generator),
          at::randn({kExperts, 2 * kIntermediate, kHidden}, generator).mul_(0.3),
          at::randn({kExperts, kHidden, kIntermediate}, generator).mul_(0.3)};
}

at::Tensor RandomTokens(int64_t tokens, uint64_t seed) {
  return at::randn({tokens, kHidden}, at::detail::createCPUGenerator(seed));
}

double Dot(const at::Tensor& row, const std::vector<double>& x) {
  const auto values = row.accessor<float, 1>();
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    sum += values[static_cast<int64_t>(i)] * x[i];
  }
  return sum;
}

// Returns the output of one expert for one token.
std::vector<double> ExpertOutput(const ExpertWeights& weights, int64_t expert,
                                 const std::vector<double>& x) {
  std::vector<double> activated;
  for (int64_t i = 0; i < kIntermediate; ++i) {
    const double gate = Dot(weights.gate_up[expert][i], x);
    const double up = Dot(weights.gate_up[expert][kIntermediate + i], x);
    activated.push_back(gate / (1 + std::exp(-gate)) * up);
  }
  std::vector<double> output;
  for (int64_t i = 0; i < kHidden; ++i) {
    output.push_back(Dot(weights.down[expert][i], activated));
  }
  return output;
}

// Computes the definition for one token in double precision.
std::vector<double> Expected(const at::Tensor& token, const ExpertWeights& weights,
                             const ExpertsConfig& config) {
  std::vector<double> x(static_cast<size_t>(kHidden));
  for (int64_t i = 0; i < kHidden; ++i) {
    x[static_cast<size_t>(i)] = token[i].item<double>();
  }
  std::vector<double> shares;
  for (int64_t expert = 0; expert < kExperts; ++expert) {
    shares.push_back(std::exp(Dot(weights.router[expert], x)));
  }
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<int64_t> order(static_cast<size_t>(kExperts));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return shares[static_cast<size_t>(a)] > shares[static_cast<size_t>(b)];
  });
  order.resize(static_cast<size_t>(config.experts_per_token));
  double chosen_total = 0;
  for (const int64_t expert : order) {
    chosen_total += shares[static_cast<size_t>(expert)];
  }
  std::vector<double> mixed(static_cast<size_t>(kHidden), 0);
  for (const int64_t expert : order) {
    const double share =
        shares[static_cast<size_t>(expert)] / (config.normalize_weights ? chosen_total : total);
    const std::vector<double> output = ExpertOutput(weights, expert, x);
    for (size_t i = 0; i < mixed.size(); ++i) {
      mixed[i] += share * output[i];
    }
  }
  return mixed;
}

void ExpectRow(const at::Tensor& mixed, int64_t row, const std::vector<double>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(mixed[row][static_cast<int64_t>(i)].item<double>(), expected[i], 1e-4)
        << "token " << row << " element " << i;
  }
}

TEST(MixExpertsTest, IsTheWeightedSumOfTheChosenExperts) {
  const ExpertWeights weights = RandomWeights(1);
  for (const bool normalize : {false, true}) {
    for (const int64_t chosen : {int64_t{1}, int64_t{2}, kExperts}) {
      const ExpertsConfig config = ConfigOf(chosen, normalize);
      for (const int64_t tokens : {1, 2, 37}) {
        const at::Tensor x = RandomTokens(tokens, 7);
        const at::Tensor mixed = MixExperts(x, weights, config);
        ASSERT_EQ(mixed.sizes(), x.sizes());
        for (int64_t row = 0; row < tokens; ++row) {
          ExpectRow(mixed, row, Expected(x[row], weights, config));
        }
      }
    }
  }
}

// Experts have no capacity limit, so no token is dropped even if all tokens choose the same expert.
TEST(MixExpertsTest, DropsNoTokenWhenAllChooseOneExpert) {
  ExpertWeights weights = RandomWeights(2);
  const at::Tensor x = RandomTokens(300, 8).abs_();
  weights.router[3].fill_(9);
  const ExpertsConfig config = ConfigOf(2, true);
  const at::Tensor mixed = MixExperts(x, weights, config);
  for (const int64_t row : {0, 150, 299}) {
    ExpectRow(mixed, row, Expected(x[row], weights, config));
  }
}

TEST(MixExpertsTest, ChunksOfTokensGiveTheSame) {
  const ExpertWeights weights = RandomWeights(3);
  const ExpertsConfig config = ConfigOf(2, false);
  const at::Tensor x = RandomTokens(8192 + 5, 9);
  const at::Tensor mixed = MixExperts(x, weights, config);
  ASSERT_EQ(mixed.size(0), x.size(0));
  for (const int64_t row : {0, 8191, 8192, 8196}) {
    ExpectRow(mixed, row, Expected(x[row], weights, config));
  }
}

TEST(MixExpertsTest, KeepsTheType) {
  const ExpertWeights weights = RandomWeights(4);
  const at::Tensor x = RandomTokens(9, 10);
  const at::Tensor expected = MixExperts(x, weights, ConfigOf(2, true));
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const ExpertWeights half = {weights.router.to(type), weights.gate_up.to(type),
                                weights.down.to(type)};
    const at::Tensor mixed = MixExperts(x.to(type), half, ConfigOf(2, true));
    ASSERT_EQ(mixed.scalar_type(), type);
    EXPECT_LE(mixed.sub(expected).abs().max().item<double>(),
              0.05 * expected.abs().max().item<double>());
  }
}

}  // namespace
}  // namespace canopy
