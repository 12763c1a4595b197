#include "core/tree/token_reads.h"

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "core/tree/testing/naive_tree.h"
#include "core/tree/testing/random_batch.h"
#include "core/tree/tree_plan.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using testing::FullPath;
using testing::Path;

// Returns the tokens from the root to a slot, derived from the visibility rule alone.
Path TokensTo(const TreePlan& plan, int32_t slot) {
  Path tokens;
  if (plan.backend == Backend::kPath) {
    for (int32_t i = slot / plan.grid.columns * plan.grid.columns; i <= slot; ++i) {
      tokens.push_back(plan.grid.token_ids[i]);
    }
    return tokens;
  }
  for (const int32_t visible : testing::VisibleSlots(plan.grid, slot)) {
    tokens.push_back(plan.grid.token_ids[visible]);
  }
  return tokens;
}

struct Case {
  TokenScope scope;
  FirstTokens first_tokens;
};

void CheckReads(const PathBatch& batch, const TreePlan& plan, const Case& test) {
  const TokenReads reads = CollectTokenReads(plan, test.scope, test.first_tokens);
  const std::vector<int32_t> questions = testing::PathQuestions(batch);
  ASSERT_EQ(reads.entries.offsets.size(), plan.paths.size() + 1);
  std::set<int32_t> distinct(reads.slots.begin(), reads.slots.end());
  EXPECT_EQ(distinct.size(), reads.slots.size()) << "a slot is read once";
  for (size_t p = 0; p < plan.paths.size(); ++p) {
    const int32_t question = questions[plan.paths[p]];
    const Path path = FullPath(batch, question, plan.paths[p]);
    size_t first =
        test.scope == TokenScope::kPath ? 0 : static_cast<size_t>(batch.prefixes[question].size);
    if (test.first_tokens == FirstTokens::kLeaveOut) {
      first = std::max<size_t>(first, 1);
    }
    EXPECT_EQ(reads.entries.first_token[p], static_cast<int32_t>(first));
    const auto count = static_cast<size_t>(reads.entries.offsets[p + 1] - reads.entries.offsets[p]);
    ASSERT_EQ(count, path.size() > first ? path.size() - first : 0);
    for (size_t entry = 0; entry < count; ++entry) {
      const int32_t read = reads.path_reads[static_cast<size_t>(reads.entries.offsets[p]) + entry];
      const auto end = path.begin() + static_cast<std::ptrdiff_t>(first + entry);
      EXPECT_EQ(TokensTo(plan, reads.slots[read]), Path(path.begin(), end + 1));
      if (end == path.begin()) {
        EXPECT_EQ(reads.source_slots[read], -1);
      } else {
        ASSERT_GE(reads.source_slots[read], 0);
        EXPECT_EQ(TokensTo(plan, reads.source_slots[read]), Path(path.begin(), end));
      }
    }
  }
}

void CheckBatch(const PathBatch& batch, int64_t max_batch_tokens) {
  for (const Backend backend : {Backend::kDense, Backend::kPath}) {
    for (const Packing packing : {Packing::kAuto, Packing::kPadded}) {
      RouteOptions options;
      options.backend = backend;
      options.packing = packing;
      options.max_mask_bytes = int64_t{1} << 40;
      const auto plan =
          RequestPlan::Create(std::make_shared<const PathBatch>(batch), options, max_batch_tokens);
      ASSERT_TRUE(plan.ok()) << plan.status();
      for (int32_t part = 0; part < plan->num_parts(); ++part) {
        const TreePlan built = plan->BuildPart(part);
        for (const TokenScope scope : {TokenScope::kCandidate, TokenScope::kPath}) {
          CheckReads(batch, built, {scope, FirstTokens::kLeaveOut});
          CheckReads(batch, built, {scope, FirstTokens::kInclude});
        }
      }
    }
  }
}

TEST(TokenReadsTest, EveryEntryStandsForItsTokenAfterItsPath) {
  for (int index = 0; index < 300; ++index) {
    SCOPED_TRACE(testing::Seed(index));
    std::mt19937_64 random(testing::Seed(index));
    CheckBatch(testing::RandomBatch(random), 1'000'000);
  }
}

TEST(TokenReadsTest, PartsReadTheirOwnPaths) {
  for (int index = 0; index < 100; ++index) {
    SCOPED_TRACE(testing::Seed(index));
    std::mt19937_64 random(testing::Seed(index));
    CheckBatch(testing::RandomBatch(random), 40);
  }
}

TEST(TokenReadsTest, AwkwardShapesByName) {
  for (const testing::NamedBatch& named : testing::NamedBatches()) {
    SCOPED_TRACE(named.name);
    CheckBatch(named.batch, 1'000'000);
  }
}

}  // namespace
}  // namespace canopy
