#include "core/tree/work_estimate.h"

#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "core/tree/route_costs.h"
#include "core/tree/testing/naive_tree.h"
#include "core/tree/testing/random_batch.h"
#include "core/tree/tree_plan.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

constexpr int kNumRandomBatches = 3000;
constexpr int64_t kNoLimit = int64_t{1} << 30;

using Tokens = std::vector<int32_t>;

// Returns `questions` questions of `candidates` candidates, whose tokens are all different.
PathBatch Fan(int32_t questions, int32_t candidates, int32_t prefix, int32_t suffix) {
  PathBatch batch;
  int32_t next = 0;
  const auto tokens = [&next](int32_t count) {
    Tokens drawn(static_cast<size_t>(count));
    for (int32_t& token : drawn) {
      token = next++;
    }
    return drawn;
  };
  for (int32_t question = 0; question < questions; ++question) {
    const Tokens shared = tokens(prefix);
    std::vector<Tokens> suffixes;
    suffixes.reserve(static_cast<size_t>(candidates));
    for (int32_t i = 0; i < candidates; ++i) {
      suffixes.push_back(tokens(suffix));
    }
    batch.AddQuestion(shared, suffixes);
  }
  return batch;
}

RouteOptions Options(Backend backend = Backend::kAuto) {
  RouteOptions options;
  options.backend = backend;
  options.hidden_size = 64;
  options.fused_supported = true;
  return options;
}

RouteOptions Measured() {
  RouteOptions options = Options();
  options.policy = Policy::kMeasured;
  options.costs = std::make_shared<const RouteCosts>();
  return options;
}

int64_t UniqueTokens(const PathBatch& batch) {
  int64_t unique = 0;
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    unique +=
        static_cast<int64_t>(testing::NaiveTrie(testing::QuestionPaths(batch, question)).size());
  }
  return unique;
}

TEST(WorkEstimate, CountsByTheRouteThatTheRequestWillTake) {
  // The batch has 32 questions of 64 candidates, with 1,024 prefix tokens and 64 suffix tokens
  // each.
  const PathBatch rollout = Fan(32, 64, 1024, 64);
  constexpr int64_t kPath = 32 * 64 * 1088;
  constexpr int64_t kUnique = 32 * (1024 + 64 * 64);
  RouteOptions no_tree = Options();
  no_tree.tree_supported = false;
  RouteOptions no_mask = Options();
  no_mask.max_mask_bytes = 0;
  RouteOptions fused_without_mask = Options(Backend::kFused);
  fused_without_mask.max_mask_bytes = 0;
  RouteOptions measured_without_mask = Measured();
  measured_without_mask.max_mask_bytes = 0;
  RouteOptions measured_without_tree = Measured();
  measured_without_tree.tree_supported = false;
  const std::vector<std::pair<RouteOptions, int64_t>> cases = {
      {Options(Backend::kPath), kPath},     // named in the request
      {no_tree, kPath},                     // window layers
      {no_mask, kPath},                     // no tree backend without a mask budget
      {measured_without_mask, kPath},       // no tree backend without a mask budget
      {measured_without_tree, kPath},       // AUTO runs path
      {Options(Backend::kFused), kUnique},  // named in the request
      {fused_without_mask, kUnique},        // the fused backend has no mask
      {Measured(), kUnique},
      {Options(), kUnique},  // over the mask budget, but only two groups of chains: segmented
      {Options(Backend::kSegmented), kUnique},
      {Options(Backend::kDense), kPath},  // over the mask budget
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    const WorkEstimate estimate = EstimateWork(rollout, cases[i].first);
    EXPECT_EQ(estimate.computed_tokens, cases[i].second) << "case " << i;
    EXPECT_EQ(estimate.path_tokens, kPath);
    EXPECT_EQ(estimate.input_tokens, kPath);
  }
}

TEST(WorkEstimate, SmallRequestsRunByPathUnderTheReferencePolicyAlone) {
  const PathBatch small = Fan(1, 4, 100, 16);
  ASSERT_LT(4 * 116, kSmallBatchPathTokens);
  EXPECT_EQ(EstimateWork(small, Options()).computed_tokens, 4 * 116);
  EXPECT_EQ(EstimateWork(small, Measured()).computed_tokens, 164);
  EXPECT_EQ(EstimateWork(small, Options(Backend::kFused)).computed_tokens, 164);
  EXPECT_EQ(EstimateWork(small, Options(Backend::kDense)).computed_tokens, 164);
}

TEST(WorkEstimate, PaddingOfTheForestCounts) {
  PathBatch batch = Fan(1, 64, 490, 18);
  const PathBatch other = Fan(1, 2, 490, 18);
  batch.AddQuestion(other.Tokens(other.prefixes[0]), {{1}, {2}});
  RouteOptions padded = Options(Backend::kDense);
  padded.packing = Packing::kPadded;
  EXPECT_EQ(EstimateWork(batch, padded).computed_tokens, 2 * (490 + 64 * 18));
  EXPECT_EQ(EstimateWork(batch, Options(Backend::kDense)).computed_tokens, 490 + 64 * 18 + 490 + 2)
      << "the flat layout has none";
}

// Covers every rule of the reference policy, with batches on both sides of each limit.
TEST(WorkEstimate, IsWhatThePlanComputesBeforeItIsCut) {
  int forests = 0;
  for (int i = 0; i < kNumRandomBatches && !HasFailure(); ++i) {
    SCOPED_TRACE(testing::Seed(i));
    std::mt19937_64 random(testing::Seed(i));
    const auto batch = std::make_shared<const PathBatch>(
        i % 3 == 0
            ? Fan(1 + static_cast<int32_t>(random() % 4), 1 + static_cast<int32_t>(random() % 6),
                  static_cast<int32_t>(random() % 40), 1 + static_cast<int32_t>(random() % 9))
            : testing::RandomBatch(random));
    constexpr Backend kBackends[] = {Backend::kDense, Backend::kSegmented, Backend::kAuto,
                                     Backend::kFused};
    RouteOptions options = Options(kBackends[random() % 4]);
    options.packing = random() % 2 == 0 ? Packing::kAuto : Packing::kPadded;
    options.max_mask_bytes = random() % 4 == 0 ? 0 : static_cast<int64_t>(random() % 20'000);
    options.hidden_size = random() % 2 == 0 ? 64 : 256;
    const auto plan = RequestPlan::Create(batch, options, kNoLimit);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const PlanCounts& counts = plan->counts();
    const WorkEstimate estimate = EstimateWork(*batch, options);
    EXPECT_EQ(estimate.path_tokens, counts.path_tokens);
    EXPECT_EQ(estimate.input_tokens, counts.input_tokens);
    if (plan->route().backend == Backend::kPath) {
      EXPECT_EQ(estimate.computed_tokens, counts.path_tokens);
    } else {
      ++forests;
      EXPECT_EQ(estimate.computed_tokens, counts.forest_tokens);
    }
    EXPECT_GE(estimate.computed_tokens, 1);
    EXPECT_EQ(EstimateWork(*batch, Measured()).computed_tokens, UniqueTokens(*batch));
  }
  EXPECT_GT(forests, kNumRandomBatches / 4) << "both outcomes are common";
  EXPECT_LT(forests, kNumRandomBatches * 9 / 10);
}

// Each path differs from the one before it at its first token, so comparing neighbours finds no
// shared tokens. First tokens are multiples of a power of two, which collide under weak hashes.
TEST(WorkEstimate, HostileOrderIsCountedExactly) {
  constexpr int32_t kPaths = 1 << 16;
  std::vector<Tokens> suffixes;
  for (int32_t i = 0; i < kPaths; ++i) {
    Tokens suffix(4, (i % (kPaths / 2)) << 12);
    suffix.push_back(i);
    suffixes.push_back(std::move(suffix));
  }
  PathBatch batch;
  batch.AddQuestion({}, suffixes);
  EXPECT_EQ(EstimateWork(batch, Measured()).computed_tokens, 4 * (kPaths / 2) + kPaths);
  EXPECT_EQ(EstimateWork(batch, Measured()).computed_tokens, 4 * (kPaths / 2) + kPaths);
}

}  // namespace
}  // namespace canopy
