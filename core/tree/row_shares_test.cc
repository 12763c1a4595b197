#include "core/tree/row_shares.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "core/tree/testing/naive_tree.h"
#include "core/tree/testing/random_batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using ::testing::ElementsAre;

TreePlan PlanOf(const PathBatch& batch, Backend backend, Packing packing = Packing::kAuto) {
  RouteOptions options;
  options.backend = backend;
  options.packing = packing;
  options.fused_supported = true;
  return RequestPlan::Create(std::make_shared<const PathBatch>(batch), options, 1 << 20)
      ->BuildPart(0);
}

TEST(RowShares, ASharedRowCountsForTheFirst) {
  PathBatch batch;
  batch.AddQuestion({4, 5}, {{6}, {7}});
  batch.AddQuestion({4, 5}, {{8}});
  batch.AddQuestion({4}, {{6}});
  EXPECT_THAT(CountRowShares(PlanOf(batch, Backend::kFused), {0, 2, 3, 4}), ElementsAre(4, 1, 1));
  EXPECT_THAT(CountRowShares(PlanOf(batch, Backend::kFused), {0, 0, 4}), ElementsAre(0, 6));
}

TEST(RowShares, PaddingCountsForTheFirstInItsRow) {
  PathBatch batch;
  batch.AddQuestion({4, 5, 6}, {{7}});
  batch.AddQuestion({}, {{1}});
  EXPECT_THAT(CountRowShares(PlanOf(batch, Backend::kPath), {0, 1, 2}), ElementsAre(4, 4));
}

// Assigns a slot to the first owner who has a path that reads it.
std::vector<int64_t> NaiveShares(const TreePlan& plan, const std::vector<int32_t>& offsets) {
  std::vector<int64_t> shares(offsets.size() - 1, 0);
  std::set<int32_t> taken;
  for (size_t owner = 0; owner < shares.size(); ++owner) {
    for (int32_t path = offsets[owner]; path < offsets[owner + 1]; ++path) {
      for (const int32_t slot : testing::VisibleSlots(plan.grid, plan.endpoints[path])) {
        shares[owner] += taken.insert(slot).second ? 1 : 0;
      }
    }
  }
  return shares;
}

TEST(RowShares, AreThoseOfTheDefinitionAndAddUp) {
  for (int i = 0; i < 500 && !HasFailure(); ++i) {
    SCOPED_TRACE(::testing::Message() << "seed " << testing::Seed(i));
    std::mt19937_64 random(testing::Seed(i));
    const PathBatch batch = testing::RandomBatch(random);
    std::vector<int32_t> offsets = {0, batch.num_paths()};
    for (int cut = 0; cut < 3; ++cut) {
      offsets.push_back(static_cast<int32_t>(random() % (batch.num_paths() + 1)));
    }
    std::sort(offsets.begin(), offsets.end());
    const TreePlan fused = PlanOf(batch, Backend::kFused);
    const std::vector<int64_t> shares = CountRowShares(fused, offsets);
    EXPECT_EQ(shares, NaiveShares(fused, offsets));
    for (const TreePlan& plan :
         {fused, PlanOf(batch, Backend::kPath), PlanOf(batch, Backend::kDense, Packing::kPadded)}) {
      const std::vector<int64_t> all = CountRowShares(plan, offsets);
      EXPECT_EQ(std::accumulate(all.begin(), all.end(), int64_t{0}), plan.computed_tokens());
    }
  }
}

}  // namespace
}  // namespace canopy
