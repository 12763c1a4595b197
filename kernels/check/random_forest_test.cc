#include "kernels/check/random_forest.h"

#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace canopy::kernels::check {
namespace {

TEST(ForestBuilder, NumbersTheDrawnExample) {
  // The trees are 0 - 1 - 2 and 0 - 3 - 4.
  ForestBuilder builder;
  builder.Grow(3);
  builder.ReturnTo(1);
  builder.Grow(2);
  const TokenForest forest = builder.Build();
  EXPECT_EQ(forest.exit, (std::vector<int32_t>{4, 2, 2, 4, 4}));
  EXPECT_EQ(forest.max_path_tokens, 3);
  EXPECT_EQ(forest.visible_pairs, 1 + 2 + 3 + 2 + 3);
}

TEST(RandomForest, IsAForestInDepthFirstOrderWithTrueCounts) {
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    const TokenForest forest = RandomForest(random, 500);
    const auto tokens = static_cast<int32_t>(forest.exit.size());
    ASSERT_GE(tokens, 1);
    ASSERT_LE(tokens, 500);
    int64_t visible = 0;
    int32_t longest = 0;
    for (int32_t query = 0; query < tokens; ++query) {
      ASSERT_GE(forest.exit[query], query);
      ASSERT_LT(forest.exit[query], tokens);
      int32_t ancestors = 0;
      for (int32_t key = 0; key <= query; ++key) {
        if (forest.exit[key] < query) {
          continue;
        }
        // The subtree of the query is inside the subtree of the key.
        ASSERT_GE(forest.exit[key], forest.exit[query]);
        ++ancestors;
      }
      visible += ancestors;
      longest = std::max(longest, ancestors);
    }
    EXPECT_EQ(forest.visible_pairs, visible);
    EXPECT_EQ(forest.max_path_tokens, longest);
  }
}

TEST(WideForest, HasThePublishedCounts) {
  EXPECT_EQ(WideForest(1, 490, 64, 18).exit.size(), 1642U);
  EXPECT_EQ(WideForest(32, 1024, 64, 64).exit.size(), 163840U);
}

TEST(DeepForest, HasThePublishedCounts) {
  const TokenForest forest = DeepForest(16, 256, 7, 16);
  EXPECT_EQ(forest.exit.size(), 69120U);
  EXPECT_EQ(forest.max_path_tokens, 256 + 7 * 16);
}

}  // namespace
}  // namespace canopy::kernels::check
