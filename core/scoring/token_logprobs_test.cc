#include "core/scoring/token_logprobs.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "ATen/TensorIndexing.h"
#include "ATen/ops/arange.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/log_softmax.h"
#include "ATen/ops/sin.h"
#include "ATen/ops/tensor.h"
#include "c10/core/Allocator.h"
#include "c10/core/GradMode.h"
#include "c10/util/ThreadLocalDebugInfo.h"
#include "gtest/gtest.h"
#include "tests/testing/test_device.h"

namespace canopy {
namespace {

constexpr int64_t kHidden = 24;
constexpr int64_t kVocab = 113;

// Returns [rows, columns] irregular values in -1 .. 1.
at::Tensor Noise(int64_t rows, int64_t columns, double frequency) {
  return at::sin(at::arange(rows * columns, at::kFloat).mul_(frequency))
      .view({rows, columns})
      .to(at::Device(TestDevice()));
}

// Returns distributions of some rows, in mixed order, with zero, one or several targets each.
DistributionReads SomeReads() {
  DistributionReads reads;
  reads.rows = {6, 0, 3, 4, 1};
  reads.target_offsets = {0, 2, 2, 3, 6, 7};
  reads.targets = {0, 112, 5, 7, 7, 50, 33};
  return reads;
}

DistributionOptions All(float temperature, int32_t top) {
  DistributionOptions options;
  options.token_logprobs = options.entropy = options.vocab_range = true;
  options.token_ranks = top > 0;
  options.top_logprobs = top;
  options.temperature = temperature;
  return options;
}

// Returns the logits of one hidden row, computed in double precision from the stored numbers.
std::vector<double> OracleLogits(const at::Tensor& hidden, const at::Tensor& weight) {
  const at::Tensor wide_hidden = hidden.cpu().to(at::kDouble).contiguous();
  const at::Tensor wide_weight = weight.cpu().to(at::kDouble).contiguous();
  const auto* row = wide_hidden.const_data_ptr<double>();
  const auto* matrix = wide_weight.const_data_ptr<double>();
  std::vector<double> logits;
  for (int64_t word = 0; word < weight.size(0); ++word) {
    logits.push_back(
        std::inner_product(row, row + weight.size(1), matrix + word * weight.size(1), 0.0));
  }
  return logits;
}

std::vector<double> OracleLogprobs(std::vector<double> logits, double temperature) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (double& logit : logits) {
    logit = (logit - largest) / temperature;
    sum += std::exp(logit);
  }
  for (double& logit : logits) {
    logit -= std::log(sum);
  }
  return logits;
}

// Returns the lowest and the highest rank of a token if each logit is off by up to `tolerance`.
std::pair<int32_t, int32_t> RankBounds(const std::vector<double>& logits, int32_t token,
                                       double tolerance) {
  std::pair<int32_t, int32_t> bounds = {1, 1};
  for (size_t other = 0; other < logits.size(); ++other) {
    if (other != static_cast<size_t>(token)) {
      bounds.first += logits[other] > logits[token] + 2 * tolerance ? 1 : 0;
      bounds.second += logits[other] >= logits[token] - 2 * tolerance ? 1 : 0;
    }
  }
  return bounds;
}

void ExpectMatchesOracle(const at::Tensor& hidden, const at::Tensor& weight,
                         const DistributionOptions& options) {
  const DistributionReads reads = SomeReads();
  const DistributionResults results = LanguageModelHead(weight).Read(hidden, reads, options);
  ASSERT_EQ(results.logprobs.sizes(), (std::vector<int64_t>{7}));
  ASSERT_EQ(results.top_ids.sizes(), (std::vector<int64_t>{5, options.top_logprobs}));
  for (size_t d = 0; d < reads.rows.size(); ++d) {
    const auto index = static_cast<int64_t>(d);
    const std::vector<double> logits = OracleLogits(hidden[reads.rows[d]], weight);
    const std::vector<double> logprobs = OracleLogprobs(logits, options.temperature);
    for (int64_t t = reads.target_offsets[d]; t < reads.target_offsets[d + 1]; ++t) {
      EXPECT_NEAR(results.logprobs[t].item<double>(), logprobs[reads.targets[t]], 1e-4);
      const auto [lowest, highest] = RankBounds(logits, reads.targets[t], 1e-5);
      EXPECT_EQ(lowest, highest) << "the numbers are chosen to be apart";
      EXPECT_EQ(results.ranks[t].item<int32_t>(), lowest);
    }
    double entropy = 0;
    for (const double logprob : logprobs) {
      entropy -= std::exp(logprob) * logprob;
    }
    EXPECT_NEAR(results.entropy[index].item<double>(), entropy, 1e-4);
    EXPECT_NEAR(results.min_logit[index].item<double>(),
                *std::min_element(logits.begin(), logits.end()), 1e-4);
    EXPECT_NEAR(results.max_logit[index].item<double>(),
                *std::max_element(logits.begin(), logits.end()), 1e-4);
    std::vector<int32_t> order(logprobs.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return logprobs[a] > logprobs[b]; });
    for (int64_t rank = 0; rank < options.top_logprobs; ++rank) {
      EXPECT_EQ(results.top_ids[index][rank].item<int32_t>(), order[rank]);
      EXPECT_NEAR(results.top_logprobs[index][rank].item<double>(), logprobs[order[rank]], 1e-4);
    }
  }
}

TEST(LanguageModelHeadTest, MatchesDoubleArithmetic) {
  for (const float temperature : {1.0F, 0.3F, 100.0F}) {
    ExpectMatchesOracle(Noise(7, kHidden, 12.9898), Noise(kVocab, kHidden, 78.233),
                        All(temperature, 5));
  }
}

TEST(LanguageModelHeadTest, NarrowWeightsAreMultipliedInFloat32) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    ExpectMatchesOracle(Noise(7, kHidden, 12.9898).to(type),
                        Noise(kVocab, kHidden, 78.233).to(type), All(0.7F, 3));
  }
}

// The vocabulary is so large that the weights are widened in several steps.
TEST(LanguageModelHeadTest, WideningInStepsKeepsTheOrderOfWords) {
  constexpr int64_t kWide = 512;
  constexpr int64_t kWords = 33'001;
  const at::Tensor hidden = Noise(1, kWide, 12.9898).to(at::kBFloat16);
  const at::Tensor weight = Noise(kWords, kWide, 78.233).to(at::kBFloat16);
  DistributionReads reads;
  reads.rows = {0};
  reads.target_offsets = {0, 3};
  reads.targets = {0, 32'768, kWords - 1};
  DistributionOptions options;
  options.token_logprobs = true;
  const DistributionResults results = LanguageModelHead(weight).Read(hidden, reads, options);
  const std::vector<double> logprobs = OracleLogprobs(OracleLogits(hidden[0], weight), 1);
  for (int64_t target = 0; target < 3; ++target) {
    EXPECT_NEAR(results.logprobs[target].item<double>(), logprobs[reads.targets[target]], 1e-3);
  }
}

TEST(LanguageModelHeadTest, ChunksGiveWhatOnePassGives) {
  const at::Tensor hidden = Noise(7, kHidden, 12.9898);
  const LanguageModelHead head(Noise(kVocab, kHidden, 78.233));
  DistributionOptions options = All(0.9F, 4);
  const DistributionResults whole = head.Read(hidden, SomeReads(), options);
  // The limits allow one row, then two rows of 28 bytes per logit.
  for (const int64_t workspace_bytes : {int64_t{1}, 2 * 28 * kVocab}) {
    options.workspace_bytes = workspace_bytes;
    const DistributionResults chunks = head.Read(hidden, SomeReads(), options);
    EXPECT_TRUE(chunks.logprobs.allclose(whole.logprobs, 1e-6, 1e-6));
    EXPECT_TRUE(chunks.entropy.allclose(whole.entropy, 1e-6, 1e-6));
    EXPECT_TRUE(chunks.min_logit.allclose(whole.min_logit, 1e-6, 1e-6));
    EXPECT_TRUE(chunks.max_logit.allclose(whole.max_logit, 1e-6, 1e-6));
    EXPECT_TRUE(chunks.top_ids.equal(whole.top_ids));
    EXPECT_TRUE(chunks.ranks.equal(whole.ranks));
    EXPECT_TRUE(chunks.top_logprobs.allclose(whole.top_logprobs, 1e-6, 1e-6));
  }
}

TEST(LanguageModelHeadTest, TiesGoToTheLowerId) {
  at::Tensor weight = Noise(kVocab, kHidden, 78.233);
  const at::Tensor hidden = Noise(1, kHidden, 12.9898);
  // Words 3, 90 and 17 are equal and by far the most likely. All other words tie far below.
  weight.zero_();
  for (const int64_t word : {3, 90, 17}) {
    weight[word].copy_(hidden[0]);
  }
  DistributionReads reads;
  reads.rows = {0};
  reads.target_offsets = {0, 0};
  DistributionOptions options;
  options.top_logprobs = 6;
  const DistributionResults results = LanguageModelHead(weight).Read(hidden, reads, options);
  const std::vector<int32_t> expected = {3, 17, 90, 0, 1, 2};
  for (size_t rank = 0; rank < expected.size(); ++rank) {
    EXPECT_EQ(results.top_ids[0][static_cast<int64_t>(rank)].item<int32_t>(), expected[rank]);
  }
}

// Every token is a target. Logits are small integers, computed exactly, so most tokens are tied.
TEST(LanguageModelHeadTest, RanksCountFromOneAndTiesGoToTheLowerId) {
  constexpr int32_t kRows = 3;
  const at::Tensor weight = Noise(kVocab, kHidden, 78.233).sign();
  const at::Tensor hidden = Noise(kRows, kHidden, 12.9898).sign();
  DistributionReads reads;
  reads.target_offsets = {0};
  for (int32_t row = 0; row < kRows; ++row) {
    reads.rows.push_back(row);
    for (int32_t token = 0; token < kVocab; ++token) {
      reads.targets.push_back(token);
    }
    reads.target_offsets.push_back(static_cast<int64_t>(reads.targets.size()));
  }
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t workspace_bytes : {int64_t{768} << 20, int64_t{1}}) {
      DistributionOptions options;
      options.token_ranks = true;
      options.top_logprobs = 7;
      options.workspace_bytes = workspace_bytes;
      const LanguageModelHead head(weight.to(type));
      const DistributionResults results = head.Read(hidden.to(type), reads, options);
      options.top_logprobs = 0;
      EXPECT_TRUE(head.Read(hidden.to(type), reads, options).ranks.equal(results.ranks));
      ASSERT_EQ(results.ranks.sizes(), (std::vector<int64_t>{kRows * kVocab}));
      const at::Tensor ranks = results.ranks.cpu();
      const at::Tensor top_ids = results.top_ids.cpu();
      for (int32_t row = 0; row < kRows; ++row) {
        const std::vector<double> logits = OracleLogits(hidden[row], weight);
        for (int32_t token = 0; token < kVocab; ++token) {
          int32_t rank = 1;
          for (int32_t other = 0; other < kVocab; ++other) {
            rank +=
                logits[other] > logits[token] || (logits[other] == logits[token] && other < token)
                    ? 1
                    : 0;
          }
          EXPECT_EQ(ranks[row * kVocab + token].item<int32_t>(), rank);
          if (rank <= 7) {
            EXPECT_EQ(top_ids[row][rank - 1].item<int32_t>(), token);
          }
        }
      }
    }
  }
}

TEST(LanguageModelHeadTest, ALogitThatIsNotFiniteTakesTheRanksOfItsRow) {
  const at::Tensor hidden = Noise(7, kHidden, 12.9898);
  const DistributionReads reads = SomeReads();
  DistributionOptions options;
  options.token_ranks = true;
  const LanguageModelHead head(Noise(kVocab, kHidden, 78.233));
  const at::Tensor right = head.Read(hidden, reads, options).ranks;
  for (const double bad : {NAN, INFINITY, -INFINITY}) {
    const at::Tensor spoiled = hidden.clone();
    spoiled[4].fill_(bad);  // row of the distribution with targets 3, 4 and 5
    const at::Tensor ranks = head.Read(spoiled, reads, options).ranks;
    for (int64_t target = 0; target < 7; ++target) {
      const bool is_spoiled = target >= 3 && target < 6;
      EXPECT_EQ(ranks[target].item<int32_t>(), is_spoiled ? -1 : right[target].item<int32_t>());
    }
  }
}

TEST(LanguageModelHeadTest, WhatIsNotAskedForIsUndefined) {
  const at::Tensor hidden = Noise(7, kHidden, 12.9898);
  const LanguageModelHead head(Noise(kVocab, kHidden, 78.233));
  DistributionOptions options;
  options.vocab_range = true;
  const DistributionResults range = head.Read(hidden, SomeReads(), options);
  EXPECT_TRUE(range.min_logit.defined() && range.max_logit.defined());
  EXPECT_FALSE(range.logprobs.defined() || range.entropy.defined() || range.top_ids.defined() ||
               range.ranks.defined());
}

TEST(LanguageModelHeadTest, NothingToReadIsNoError) {
  const DistributionReads none = {{}, {0}, {}, {}, {}, {}};
  const DistributionResults results =
      LanguageModelHead(Noise(kVocab, kHidden, 78.233)).Read(Noise(2, kHidden, 3), none, All(1, 2));
  EXPECT_EQ(results.logprobs.numel(), 0);
  EXPECT_EQ(results.top_ids.numel(), 0);
  EXPECT_EQ(results.ranks.numel(), 0);
}

// Measures the peak of the bytes that LibTorch's allocators hand out to this thread.
class AllocationPeak : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*pointer*/, int64_t size, size_t /*allocated*/, size_t /*reserved*/,
                         c10::Device /*device*/) override {
    current_bytes_ += size;  // `size` is negative for a free
    peak_bytes_ = std::max(peak_bytes_, current_bytes_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t peak_bytes() const { return peak_bytes_; }

 private:
  int64_t current_bytes_ = 0;
  int64_t peak_bytes_ = 0;
};

TEST(LanguageModelHeadTest, WorkspaceStaysBelowOneGibibyteAtAnyBatch) {
  constexpr int64_t kWords = 151'936;  // Qwen3's vocabulary
  const at::Tensor weight = Noise(kWords, 8, 78.233);
  // Each case needs more than one chunk. Rows take more memory if tokens are ranked, and less with
  // our kernel.
  const int64_t some_rows = weight.is_cuda() ? 2000 : 450;
  const int64_t ranked_rows = weight.is_cuda() ? 600 : 300;
  struct Case {
    int64_t num_rows;
    int32_t top;
    bool ranks;
    at::ScalarType type;
  };
  const Case cases[] = {{some_rows, 0, false, at::kFloat},
                        {some_rows, 0, false, at::kBFloat16},
                        {150, 5, false, at::kFloat},
                        {ranked_rows, 0, true, at::kFloat}};
  for (const auto& [num_rows, top, ranks, type] : cases) {
    const at::Tensor hidden = Noise(num_rows, 8, 12.9898).to(type);
    DistributionReads reads;
    reads.rows.resize(static_cast<size_t>(num_rows));
    std::iota(reads.rows.begin(), reads.rows.end(), 0);
    reads.targets = reads.rows;
    reads.target_offsets.resize(reads.rows.size() + 1);
    std::iota(reads.target_offsets.begin(), reads.target_offsets.end(), 0);
    const LanguageModelHead head(weight.to(type));
    const auto peak = std::make_shared<AllocationPeak>();
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, peak);
    DistributionOptions options = All(0.7F, top);
    options.token_ranks = ranks;
    head.Read(hidden, reads, options);
    EXPECT_LT(peak->peak_bytes(), int64_t{1} << 30) << num_rows << " rows";
    // Checks that the peak was really measured. A kernel that does not store logits has no such
    // peak.
    if (type == at::kFloat || !weight.is_cuda()) {
      EXPECT_GT(peak->peak_bytes(), int64_t{200} << 20) << num_rows << " rows";
    }
  }
}

// Returns one number for each result, as a sum with irregular weights.
at::Tensor LossOf(const DistributionResults& results) {
  std::vector<at::Tensor> losses;
  for (const at::Tensor& result : {results.logprobs, results.entropy, results.min_logit,
                                   results.max_logit, results.top_logprobs.flatten()}) {
    const at::Tensor weights =
        at::sin(at::arange(result.size(0), result.options()).mul_(1.7).add_(0.4));
    losses.push_back(result.mul(weights).sum().view(1));
  }
  return at::cat(losses).sum();
}

// Computes the same results from the whole distributions, without chunks.
DistributionResults Unchunked(const at::Tensor& hidden, const at::Tensor& weight,
                              const DistributionReads& reads, float temperature, int64_t top) {
  const auto index = [&](const std::vector<int32_t>& values) {
    return at::tensor(values, at::kLong).to(hidden.device());
  };
  std::vector<int32_t> target_rows;
  for (size_t row = 0; row < reads.rows.size(); ++row) {
    for (int64_t t = reads.target_offsets[row]; t < reads.target_offsets[row + 1]; ++t) {
      target_rows.push_back(static_cast<int32_t>(row));
    }
  }
  const at::Tensor logits = hidden.index_select(0, index(reads.rows)).matmul(weight.t());
  const at::Tensor logprobs = at::log_softmax(logits.div(temperature), 1);
  DistributionResults results;
  results.logprobs = logprobs.index({index(target_rows), index(reads.targets)});
  results.entropy = logprobs.exp().mul(logprobs).sum(1).neg();
  results.min_logit = logits.amin({1});
  results.max_logit = logits.amax({1});
  results.top_logprobs = std::get<0>(logprobs.sort(1, /*descending=*/true)).narrow(1, 0, top);
  return results;
}

TEST(LanguageModelHeadTest, GradientsAreThoseOfTheWholeInChunksToo) {
  const DistributionReads reads = SomeReads();
  const at::Tensor hidden = Noise(7, kHidden, 12.9898).set_requires_grad(true);
  const at::Tensor weight = Noise(kVocab, kHidden, 78.233).set_requires_grad(true);
  DistributionOptions options = All(0.7F, 3);
  LossOf(Unchunked(hidden, weight, reads, options.temperature, 3)).backward();
  const at::Tensor hidden_gradient = hidden.grad().clone();
  const at::Tensor weight_gradient = weight.grad().clone();
  for (const int64_t workspace_bytes : {options.workspace_bytes, int64_t{1}}) {
    hidden.mutable_grad() = weight.mutable_grad() = at::Tensor();
    options.workspace_bytes = workspace_bytes;
    const DistributionResults results = LanguageModelHead(weight).Read(hidden, reads, options);
    LossOf(results).backward();
    EXPECT_TRUE(hidden.grad().allclose(hidden_gradient, 1e-4, 1e-5));
    EXPECT_TRUE(weight.grad().allclose(weight_gradient, 1e-4, 1e-5));
    const c10::NoGradGuard no_gradients;
    EXPECT_TRUE(results.ranks.equal(LanguageModelHead(weight).Read(hidden, reads, options).ranks));
  }
}

}  // namespace
}  // namespace canopy
