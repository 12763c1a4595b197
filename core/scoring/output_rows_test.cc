#include "core/scoring/output_rows.h"

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "core/tree/testing/random_batch.h"
#include "core/tree/token_reads.h"
#include "core/tree/tree_plan.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

TreePlan PlanOf(const PathBatch& batch, Backend backend) {
  RouteOptions options;
  options.backend = backend;
  options.max_mask_bytes = int64_t{1} << 40;
  const auto plan =
      RequestPlan::Create(std::make_shared<const PathBatch>(batch), options, 1'000'000);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan->BuildPart(0);
}

void ExpectEndpointsFirst(const TreePlan& plan, const OutputRows& rows) {
  ASSERT_GE(rows.slots.size(), plan.endpoints.size());
  EXPECT_TRUE(std::equal(plan.endpoints.begin(), plan.endpoints.end(), rows.slots.begin()));
  std::set<int32_t> seen(plan.endpoints.begin(), plan.endpoints.end());
  for (size_t row = plan.endpoints.size(); row < rows.slots.size(); ++row) {
    EXPECT_TRUE(seen.insert(rows.slots[row]).second) << "slot " << rows.slots[row] << " twice";
  }
}

// Checks that every entry has the source and the token that TokenReads lists for it.
void ExpectDistributions(const TreePlan& plan, TokenScope scope, const OutputRows& rows) {
  const TokenReads reads = CollectTokenReads(plan, scope, FirstTokens::kLeaveOut);
  const DistributionReads& result = *rows.distributions;
  EXPECT_EQ(result.entries.offsets, reads.entries.offsets);
  ASSERT_EQ(result.entry_distribution.size(), reads.path_reads.size());
  ASSERT_EQ(result.target_offsets.size(), result.rows.size() + 1);
  EXPECT_EQ(result.targets.size(), reads.slots.size()) << "each token is looked up once";
  std::set<int32_t> sources;
  for (const int32_t row : result.rows) {
    EXPECT_TRUE(sources.insert(rows.slots[row]).second) << "a distribution is computed once";
  }
  for (size_t entry = 0; entry < reads.path_reads.size(); ++entry) {
    const int32_t read = reads.path_reads[entry];
    const int32_t distribution = result.entry_distribution[entry];
    const int32_t target = result.entry_target[entry];
    EXPECT_EQ(rows.slots[result.rows[distribution]], reads.source_slots[read]);
    EXPECT_EQ(result.targets[target], plan.grid.token_ids[reads.slots[read]]);
    EXPECT_GE(target, result.target_offsets[distribution]);
    EXPECT_LT(target, result.target_offsets[distribution + 1]);
  }
}

void ExpectValues(const TreePlan& plan, TokenScope scope, const OutputRows& rows) {
  const TokenReads reads = CollectTokenReads(plan, scope, FirstTokens::kInclude);
  EXPECT_EQ(rows.values->entries.offsets, reads.entries.offsets);
  ASSERT_EQ(rows.values->entry_token.size(), reads.path_reads.size());
  EXPECT_EQ(rows.values->rows.size(), reads.slots.size()) << "each token has one value";
  for (size_t entry = 0; entry < reads.path_reads.size(); ++entry) {
    EXPECT_EQ(rows.slots[rows.values->rows[rows.values->entry_token[entry]]],
              reads.slots[reads.path_reads[entry]]);
  }
}

TEST(OutputRowsTest, EveryEntryReadsItsRow) {
  for (int index = 0; index < 100; ++index) {
    SCOPED_TRACE(testing::Seed(index));
    std::mt19937_64 random(testing::Seed(index));
    const PathBatch batch = testing::RandomBatch(random);
    for (const Backend backend : {Backend::kDense, Backend::kPath}) {
      const TreePlan plan = PlanOf(batch, backend);
      for (const TokenScope scope : {TokenScope::kCandidate, TokenScope::kPath}) {
        const OutputRows both = PlanOutputRows(plan, {true, true, scope});
        ExpectEndpointsFirst(plan, both);
        ExpectDistributions(plan, scope, both);
        ExpectValues(plan, scope, both);
        const OutputRows values = PlanOutputRows(plan, {false, true, scope});
        ExpectEndpointsFirst(plan, values);
        ExpectValues(plan, scope, values);
        EXPECT_FALSE(values.distributions.has_value());
      }
    }
  }
}

TEST(OutputRowsTest, WithoutTokenOutputsOnlyEndpointsAreRead) {
  PathBatch batch;
  batch.AddQuestion({1, 2}, {{3}, {3}, {}});
  const TreePlan plan = PlanOf(batch, Backend::kDense);
  const OutputRows rows = PlanOutputRows(plan, {});
  EXPECT_EQ(rows.slots, plan.endpoints);
  EXPECT_FALSE(rows.distributions.has_value());
  EXPECT_FALSE(rows.values.has_value());
}

}  // namespace
}  // namespace canopy
