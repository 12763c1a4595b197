#include "core/tree/segments.h"

#include <algorithm>
#include <map>

#include "core/tree/costs.h"
#include "core/tree/testing/naive_tree.h"
#include "core/tree/testing/random_batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using ::testing::ElementsAre;

constexpr int kNumRandomBatches = 2000;

// Checks the groups of a forest against the slots that the mask lets each slot read.
void ExpectSegmentsReadWhatTheMaskShows(const Forest& forest, int32_t num_nodes) {
  const TokenGrid grid = BuildForestGrid(forest);
  const SegmentPlan plan = BuildSegments(forest);
  ASSERT_EQ(plan.restore_index.size(), grid.token_ids.size());
  int32_t num_restored = 0;
  int32_t output = 0;
  for (const SegmentGroup& group : plan.groups) {
    ASSERT_EQ(group.query_index.size(), static_cast<size_t>(group.rows * group.query_length));
    ASSERT_EQ(group.ancestor_index.size(), static_cast<size_t>(group.rows * group.start_depth));
    for (int32_t row = 0; row < group.rows; ++row) {
      const auto ancestors = group.ancestor_index.begin() + int64_t{row} * group.start_depth;
      std::vector<int32_t> keys(ancestors, ancestors + group.start_depth);
      for (int32_t k = 0; k < group.query_length; ++k, ++output) {
        const int32_t slot = group.query_index[row * group.query_length + k];
        if (plan.restore_index[slot] != output) {
          // Padding repeats the row's last slot, which is restored from an earlier output.
          EXPECT_EQ(slot, keys.back());
          continue;
        }
        keys.push_back(slot);
        EXPECT_EQ(keys, testing::VisibleSlots(grid, slot));
        ++num_restored;
      }
    }
  }
  EXPECT_EQ(num_restored, num_nodes);
}

void ExpectPaddingReadsOutputZero(const Forest& forest) {
  const SegmentPlan plan = BuildSegments(forest);
  for (int32_t question = forest.first_question; question < forest.end_question; ++question) {
    const int32_t end_slot =
        forest.trie->question_node_offsets[question + 1] + forest.SlotShift(question);
    const int32_t end_row = (question - forest.first_question + 1) * forest.columns;
    for (int32_t slot = end_slot; slot < end_row; ++slot) {
      EXPECT_EQ(plan.restore_index[slot], 0);
    }
  }
}

void ExpectCountsMatch(const PathBatch& batch, const Trie& trie) {
  std::map<int32_t, std::pair<int64_t, int64_t>> groups;  // start depth -> rows, longest
  int64_t unique_tokens = 0;
  int64_t visible_pairs = 0;
  int64_t input_tokens = 0;
  size_t longest_path = 0;
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    const auto paths = testing::QuestionPaths(batch, question);
    for (const testing::Path& path : paths) {
      input_tokens += static_cast<int64_t>(path.size());
      longest_path = std::max(longest_path, path.size());
    }
    const auto nodes = testing::NaiveTrie(paths);
    unique_tokens += static_cast<int64_t>(nodes.size());
    for (const testing::Path& node : nodes) {
      visible_pairs += static_cast<int64_t>(node.size());
    }
    for (const testing::NaiveChain& chain : testing::NaiveChains(nodes)) {
      auto& [rows, longest] = groups[chain.start_depth];
      ++rows;
      longest = std::max<int64_t>(longest, chain.size);
    }
  }
  int64_t packed_queries = 0;
  int64_t attention_pairs = 0;
  for (const auto& [start_depth, shape] : groups) {
    const auto& [rows, longest] = shape;
    packed_queries += rows * longest;
    for (int64_t query = 0; query < longest; ++query) {
      attention_pairs += rows * (start_depth + query + 1);
    }
  }
  PlanCounts counts = CountPaths(batch);
  CountForest(trie, ChooseLayout(trie, Packing::kAuto), counts);
  CountSegments(trie, counts);
  EXPECT_EQ(counts.path_tokens, batch.num_paths() * static_cast<int64_t>(longest_path));
  EXPECT_EQ(counts.input_tokens, input_tokens);
  EXPECT_EQ(counts.unique_tokens, unique_tokens);
  EXPECT_EQ(counts.visible_pairs, visible_pairs);
  EXPECT_EQ(counts.segment_groups, static_cast<int64_t>(groups.size()));
  EXPECT_EQ(counts.packed_queries, packed_queries);
  EXPECT_EQ(counts.attention_pairs, attention_pairs);
  EXPECT_EQ(counts.segment_suitable, groups.size() <= 4 && packed_queries <= counts.path_tokens);
}

void ExpectAllMatches(const PathBatch& batch) {
  const auto trie = BuildTrie(batch);
  ASSERT_TRUE(trie.ok()) << trie.status();
  for (const Layout layout : {Layout::kPadded, Layout::kFlat}) {
    const Forest forest = LayOutForest(*trie, layout, 0, trie->num_questions());
    ExpectSegmentsReadWhatTheMaskShows(forest, trie->num_nodes());
  }
  ExpectPaddingReadsOutputZero(LayOutForest(*trie, Layout::kPadded, 0, trie->num_questions()));
  ExpectCountsMatch(batch, *trie);
}

TEST(Segments, DrawnExample) {
  PathBatch batch;
  batch.AddQuestion({}, {{'A', 'B', 'C'}, {'A', 'B', 'D'}, {'A', 'E'}});
  const auto trie = BuildTrie(batch);
  ASSERT_TRUE(trie.ok());
  const SegmentPlan plan = BuildSegments(LayOutForest(*trie, Layout::kPadded, 0, 1));
  ASSERT_EQ(plan.groups.size(), 3U);
  EXPECT_THAT(plan.groups[0].query_index, ElementsAre(0));
  EXPECT_THAT(plan.groups[0].ancestor_index, ElementsAre());
  EXPECT_THAT(plan.groups[1].query_index, ElementsAre(1, 4));
  EXPECT_THAT(plan.groups[1].ancestor_index, ElementsAre(0, 0));
  EXPECT_THAT(plan.groups[2].query_index, ElementsAre(2, 3));
  EXPECT_THAT(plan.groups[2].ancestor_index, ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(plan.restore_index, ElementsAre(0, 1, 3, 4, 2));
}

TEST(Segments, PaddingRepeatsTheLastSlotOfItsRow) {
  PathBatch batch;
  batch.AddQuestion({1}, {{2, 3, 4}, {5}});
  const auto trie = BuildTrie(batch);
  ASSERT_TRUE(trie.ok());
  const SegmentPlan plan = BuildSegments(LayOutForest(*trie, Layout::kFlat, 0, 1));
  ASSERT_EQ(plan.groups.size(), 2U);
  EXPECT_THAT(plan.groups[1].query_index, ElementsAre(1, 2, 3, 4, 4, 4));
  EXPECT_THAT(plan.restore_index, ElementsAre(0, 1, 2, 3, 4));
}

TEST(Segments, NamedBatchesMatchBruteForce) {
  for (const testing::NamedBatch& named : testing::NamedBatches()) {
    SCOPED_TRACE(named.name);
    ExpectAllMatches(named.batch);
  }
}

TEST(Segments, RandomBatchesMatchBruteForce) {
  for (int i = 0; i < kNumRandomBatches && !HasFailure(); ++i) {
    SCOPED_TRACE(::testing::Message() << "seed " << testing::Seed(i));
    std::mt19937_64 random(testing::Seed(i));
    ExpectAllMatches(testing::RandomBatch(random));
  }
}

}  // namespace
}  // namespace canopy
