#include "kernels/attention/tree_attention_config.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace canopy::kernels {
namespace {

constexpr int32_t kHopper = 90;
constexpr int32_t kMultiprocessors = 132;

TreeAttentionShape Shape(int32_t tokens, int32_t query_heads, int32_t kv_heads) {
  TreeAttentionShape shape;
  shape.num_tokens = tokens;
  shape.num_query_heads = query_heads;
  shape.num_kv_heads = kv_heads;
  shape.head_dim = 128;
  shape.max_path_tokens = tokens;
  shape.visible_pairs = int64_t{tokens} * (tokens + 1) / 2;
  return shape;
}

TEST(IsSupported, NamesExactlyTheShapesThatKernelsTake) {
  EXPECT_TRUE(IsSupported(Shape(1, 1, 1)));
  EXPECT_TRUE(IsSupported(Shape(100, 24, 3)));
  EXPECT_FALSE(IsSupported(Shape(0, 2, 1)));
  EXPECT_FALSE(IsSupported(Shape(100, 9, 1)));
  EXPECT_FALSE(IsSupported(Shape(100, 5, 2)));
  EXPECT_FALSE(IsSupported(Shape(100, 0, 2)));
  TreeAttentionShape shape = Shape(100, 16, 8);
  shape.head_dim = 96;
  EXPECT_FALSE(IsSupported(shape));
  shape.head_dim = 64;
  EXPECT_TRUE(IsSupported(shape));
  shape.data_type = DataType::kFloat32;
  EXPECT_FALSE(IsSupported(shape));
}

TEST(QueryTileTokens, HoldsAllHeadsOfAGroup) {
  EXPECT_EQ(QueryTileTokens(Shape(100, 8, 8), TreeAttentionInstance::kPortable), 64);
  EXPECT_EQ(QueryTileTokens(Shape(100, 16, 8), TreeAttentionInstance::kHopper2x64), 64);
  EXPECT_EQ(QueryTileTokens(Shape(100, 16, 8), TreeAttentionInstance::kHopper3x80), 96);
  EXPECT_EQ(QueryTileTokens(Shape(100, 3, 1), TreeAttentionInstance::kHopper3x64), 48);
  EXPECT_EQ(QueryTileTokens(Shape(100, 8, 1), TreeAttentionInstance::kHopper3x64), 24);
}

TEST(ChooseInstance, TakesSmallTilesForFewItemsAndLongStepsForLongLists) {
  TreeAttentionShape shape = Shape(1642, 16, 8);
  EXPECT_EQ(ChooseInstance(shape, kHopper, kMultiprocessors), TreeAttentionInstance::kHopper2x64);
  shape = Shape(69120, 16, 8);
  shape.visible_pairs = int64_t{69120} * 300;
  EXPECT_EQ(ChooseInstance(shape, kHopper, kMultiprocessors), TreeAttentionInstance::kHopper3x64);
  shape.visible_pairs = int64_t{69120} * 900;
  EXPECT_EQ(ChooseInstance(shape, kHopper, kMultiprocessors), TreeAttentionInstance::kHopper3x80);
  for (const int32_t capability : {80, 86, 89, 100, 120}) {
    EXPECT_EQ(ChooseInstance(shape, capability, kMultiprocessors),
              TreeAttentionInstance::kPortable);
  }
}

TEST(LayOutWorkspace, PartsAreAlignedInOrderAndLargeEnough) {
  for (const int32_t tokens : {1, 2, 15, 16, 17, 113, 129, 255, 4096, 163840}) {
    for (const auto instance :
         {TreeAttentionInstance::kPortable, TreeAttentionInstance::kHopper2x64,
          TreeAttentionInstance::kHopper3x64, TreeAttentionInstance::kHopper3x80}) {
      const TreeAttentionShape shape = Shape(tokens, 16, 8);
      const TreeAttentionWorkspace space = LayOutWorkspace(shape, instance);
      const int64_t chunks = (int64_t{tokens} + 15) / 16;
      const int64_t tiles = (int64_t{tokens} + QueryTileTokens(shape, instance) - 1) /
                            QueryTileTokens(shape, instance);
      EXPECT_EQ(space.num_chunks, chunks);
      EXPECT_EQ(space.num_query_tiles, tiles);
      // In a chain, a tile reads all chunks before it.
      EXPECT_GE(space.list_capacity, chunks);
      const int64_t begins[] = {space.counters, space.exits, space.chunk_bounds, space.prefix_max,
                                space.headers,  space.order, space.lists,        space.total_bytes};
      const int64_t bytes[] = {8,
                               64 * (chunks + 1),
                               8 * chunks,
                               4 * (chunks + 1),
                               8 * tiles,
                               4 * tiles,
                               4 * tiles * space.list_capacity};
      for (int i = 0; i < 7; ++i) {
        EXPECT_EQ(begins[i] % 128, 0);
        EXPECT_GE(begins[i + 1] - begins[i], bytes[i]) << "part " << i << ", tokens " << tokens;
      }
    }
  }
}

TEST(LayOutWorkspace, SurvivesTheLargestForests) {
  TreeAttentionShape shape = Shape(std::numeric_limits<int32_t>::max() - 64, 16, 8);
  shape.max_path_tokens = 4096;
  EXPECT_GT(LayOutWorkspace(shape, TreeAttentionInstance::kHopper3x64).total_bytes, 0);
}

}  // namespace
}  // namespace canopy::kernels
