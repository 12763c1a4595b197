#include "core/model/graph_cache.h"

#include <cstdint>
#include <memory>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace canopy {
namespace {

struct FakeGraph {
  int32_t size;
};

// Simulates a device on which each graph takes `bytes_per_graph_` bytes.
class GraphCacheTest : public ::testing::Test {
 protected:
  GraphCache<FakeGraph> MakeCache(const GraphLimits& limits) {
    return GraphCache<FakeGraph>(
        limits,
        [this](int32_t size) {
          recorded_.push_back(size);
          if (fails_) {
            throw std::runtime_error("capture failed");
          }
          free_bytes_ -= bytes_per_graph_;
          return std::make_unique<FakeGraph>(FakeGraph{size});
        },
        [this] { return free_bytes_; });
  }

  std::vector<int32_t> recorded_;  // sizes, in the order of the calls
  bool fails_ = false;
  int64_t free_bytes_ = 1'000'000;
  int64_t bytes_per_graph_ = 100;
};

TEST(GraphSizeTest, IsTheNextMultipleOf32Or64) {
  for (const auto& [tokens, size] : std::vector<std::pair<int32_t, int32_t>>{{1, 32},
                                                                             {31, 32},
                                                                             {32, 32},
                                                                             {33, 64},
                                                                             {164, 192},
                                                                             {511, 512},
                                                                             {512, 512},
                                                                             {513, 576},
                                                                             {920, 960},
                                                                             {1024, 1024}}) {
    EXPECT_EQ(GraphSize(tokens), size) << tokens;
  }
}

TEST(GraphSizeTest, AreAsFewAsCountingThemOneByOneSays) {
  for (const int32_t max_tokens : {1, 32, 33, 500, 512, 513, 1024}) {
    std::set<int32_t> sizes;
    for (int32_t tokens = 1; tokens <= max_tokens; ++tokens) {
      sizes.insert(GraphSize(tokens));
    }
    EXPECT_EQ(NumGraphSizes(max_tokens), static_cast<int64_t>(sizes.size())) << max_tokens;
  }
  EXPECT_EQ(NumGraphSizes(GraphLimits().max_tokens), 24);
}

TEST_F(GraphCacheTest, RecordsASizeOnceAndReturnsItsGraphFromThenOn) {
  auto cache = MakeCache({});
  EXPECT_EQ(cache.num_graphs(), 0);
  FakeGraph* const first = cache.FindOrRecord(33);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->size, 64);
  for (const int32_t tokens : {33, 50, 64}) {
    EXPECT_EQ(cache.FindOrRecord(tokens), first) << tokens;
  }
  FakeGraph* const other = cache.FindOrRecord(65);
  EXPECT_NE(other, first);
  EXPECT_EQ(cache.FindOrRecord(40), first);  // same address as before
  EXPECT_EQ(recorded_, (std::vector<int32_t>{64, 96}));
  EXPECT_EQ(cache.num_graphs(), 2);
  EXPECT_EQ(cache.graph_bytes(), 200);
}

TEST_F(GraphCacheTest, HasNoGraphForMoreThanTheMostTokens) {
  auto cache = MakeCache({/*max_tokens=*/100, /*max_bytes=*/1000});
  EXPECT_EQ(cache.FindOrRecord(101), nullptr);
  EXPECT_TRUE(recorded_.empty());
  // 100 tokens need a graph of 128 tokens, which is allowed because the forward has only 100.
  ASSERT_NE(cache.FindOrRecord(100), nullptr);
  EXPECT_EQ(cache.FindOrRecord(101), nullptr);
  EXPECT_EQ(cache.num_graphs(), 1);
}

TEST_F(GraphCacheTest, RecordsNoMoreOnceTheBytesAreTakenAndKeepsWhatItHas) {
  auto cache = MakeCache({/*max_tokens=*/1024, /*max_bytes=*/150});
  FakeGraph* const first = cache.FindOrRecord(1);
  ASSERT_NE(cache.FindOrRecord(33), nullptr);  // 100 bytes are below the limit of 150
  EXPECT_EQ(cache.FindOrRecord(65), nullptr);
  EXPECT_EQ(cache.FindOrRecord(1), first);
  EXPECT_FALSE(cache.RecordNext());
  EXPECT_EQ(recorded_, (std::vector<int32_t>{32, 64}));
  EXPECT_EQ(cache.graph_bytes(), 200);
}

TEST_F(GraphCacheTest, CountsNoBytesIfMemoryWasFreedMeanwhile) {
  bytes_per_graph_ = -100;
  auto cache = MakeCache({});
  EXPECT_NE(cache.FindOrRecord(1), nullptr);
  EXPECT_EQ(cache.graph_bytes(), 0);
}

TEST_F(GraphCacheTest, AFailedRecordingLeavesNothingAndIsTriedAgain) {
  auto cache = MakeCache({});
  fails_ = true;
  EXPECT_THROW(cache.FindOrRecord(10), std::runtime_error);
  EXPECT_THROW(cache.RecordNext(), std::runtime_error);
  EXPECT_EQ(cache.num_graphs(), 0);
  EXPECT_EQ(cache.graph_bytes(), 0);
  fails_ = false;
  ASSERT_NE(cache.FindOrRecord(10), nullptr);
  EXPECT_EQ(recorded_, (std::vector<int32_t>{32, 32, 32}));
  EXPECT_EQ(cache.num_graphs(), 1);
}

TEST_F(GraphCacheTest, RecordNextFillsTheGapsFromTheSmallestSizeOn) {
  auto cache = MakeCache({/*max_tokens=*/130, /*max_bytes=*/1'000'000});
  ASSERT_NE(cache.FindOrRecord(64), nullptr);
  while (cache.RecordNext()) {
  }
  EXPECT_EQ(recorded_, (std::vector<int32_t>{64, 32, 96, 128, 160}));
  EXPECT_EQ(cache.num_graphs(), NumGraphSizes(130));
  EXPECT_FALSE(cache.RecordNext());
}

}  // namespace
}  // namespace canopy
