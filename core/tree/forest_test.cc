#include "core/tree/forest.h"

#include <limits>
#include <set>

#include "core/tree/testing/naive_tree.h"
#include "core/tree/testing/random_batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using ::testing::ElementsAre;
using testing::Path;

constexpr int kNumRandomBatches = 2000;

Trie TrieOf(const PathBatch& batch) {
  auto trie = BuildTrie(batch);
  EXPECT_TRUE(trie.ok()) << trie.status();
  return *std::move(trie);
}

// Returns the two questions drawn in forest.h: A B C | A B D, and X Y.
PathBatch DrawnBatch() {
  PathBatch batch;
  batch.AddQuestion({'A', 'B'}, {{'C'}, {'D'}});
  batch.AddQuestion({}, {{'X', 'Y'}});
  return batch;
}

// Fills only the sizes of the tries, because the choice of a layout reads nothing else.
Trie TrieOfSizes(const std::vector<int32_t>& sizes) {
  Trie trie;
  trie.question_node_offsets.push_back(0);
  for (const int32_t size : sizes) {
    trie.question_node_offsets.push_back(trie.question_node_offsets.back() + size);
  }
  trie.token.resize(trie.question_node_offsets.back());
  return trie;
}

TEST(Forest, PaddedHasOneRowAQuestion) {
  const Trie trie = TrieOf(DrawnBatch());
  const TokenGrid grid = BuildForestGrid(LayOutForest(trie, Layout::kPadded, 0, 2));
  EXPECT_EQ(grid.rows, 2);
  EXPECT_EQ(grid.columns, 4);
  EXPECT_THAT(grid.token_ids, ElementsAre('A', 'B', 'C', 'D', 'X', 'Y', 0, 0));
  EXPECT_THAT(grid.position_ids, ElementsAre(0, 1, 2, 2, 0, 1, 0, 0));
  EXPECT_THAT(grid.exit, ElementsAre(3, 3, 2, 3, 1, 1, 2, 3));
}

TEST(Forest, FlatHasOneRow) {
  const Trie trie = TrieOf(DrawnBatch());
  const TokenGrid grid = BuildForestGrid(LayOutForest(trie, Layout::kFlat, 0, 2));
  EXPECT_EQ(grid.rows, 1);
  EXPECT_EQ(grid.columns, 6);
  EXPECT_THAT(grid.token_ids, ElementsAre('A', 'B', 'C', 'D', 'X', 'Y'));
  EXPECT_THAT(grid.position_ids, ElementsAre(0, 1, 2, 2, 0, 1));
  EXPECT_THAT(grid.exit, ElementsAre(3, 3, 2, 3, 5, 5));
}

TEST(Forest, LaysOutSomeOfTheQuestions) {
  const Trie trie = TrieOf(DrawnBatch());
  for (const Layout layout : {Layout::kPadded, Layout::kFlat}) {
    const Forest forest = LayOutForest(trie, layout, 1, 2);
    const TokenGrid grid = BuildForestGrid(forest);
    EXPECT_THAT(grid.token_ids, ElementsAre('X', 'Y'));
    EXPECT_THAT(grid.exit, ElementsAre(1, 1));
    EXPECT_EQ(trie.question_node_offsets[1] + forest.SlotShift(1), 0);
  }
}

TEST(ChooseLayout, FlatNeedsTheSmallerMask) {
  // The masks have 8^2 = 64 elements flat and 3 x 4^2 = 48 padded, then 9^2 = 81 and 6 x 4^2 = 96.
  EXPECT_EQ(ChooseLayout(TrieOfSizes({4, 2, 2}), Packing::kAuto).layout, Layout::kPadded);
  EXPECT_EQ(ChooseLayout(TrieOfSizes({4, 1, 1, 1, 1, 1}), Packing::kAuto).layout, Layout::kFlat);
  // Both masks have 36 elements: 6^2 and 4 x 3^2.
  const LayoutChoice equal = ChooseLayout(TrieOfSizes({3, 1, 1, 1}), Packing::kAuto);
  EXPECT_EQ(equal.layout, Layout::kPadded);
  EXPECT_EQ(equal.forest_tokens, 12);
  EXPECT_EQ(equal.mask_bytes, 4 * 9 * 4);
  const LayoutChoice flat = ChooseLayout(TrieOfSizes({3, 1, 1, 1, 0}), Packing::kAuto);
  EXPECT_EQ(flat.layout, Layout::kFlat);
  EXPECT_EQ(flat.forest_tokens, 6);
  EXPECT_EQ(flat.mask_bytes, 6 * 6 * 4);
}

TEST(ChooseLayout, OneQuestionIsPadded) {
  EXPECT_EQ(ChooseLayout(TrieOfSizes({9}), Packing::kAuto).layout, Layout::kPadded);
}

TEST(ChooseLayout, PaddedPackingNeverTakesFlat) {
  const LayoutChoice choice = ChooseLayout(TrieOfSizes({4, 1, 1, 1, 1, 1}), Packing::kPadded);
  EXPECT_EQ(choice.layout, Layout::kPadded);
  EXPECT_EQ(choice.forest_tokens, 24);
  EXPECT_EQ(choice.mask_bytes, 6 * 16 * 4);
}

TEST(ChooseLayout, MaskBytesBeyondInt64StopAtTheLargest) {
  // There are 1,024 questions, one of them with 2^30 nodes. The mask's size, 2^10 x 2^60 x 4 bytes,
  // is 0 modulo 2^64.
  Trie trie;
  trie.question_node_offsets.push_back(0);
  for (int32_t question = 0; question < 1024; ++question) {
    trie.question_node_offsets.push_back(1 << 30);
  }
  const LayoutChoice choice = ChooseLayout(trie, Packing::kPadded);
  EXPECT_EQ(choice.mask_bytes, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(choice.forest_tokens, int64_t{1024} << 30);
}

// In every layout a slot reads its node and the node's ancestors, root first. Padding reads itself.
void ExpectVisibilityIsAncestry(const PathBatch& batch, Layout layout) {
  const Trie trie = TrieOf(batch);
  const Forest forest = LayOutForest(trie, layout, 0, trie.num_questions());
  const TokenGrid grid = BuildForestGrid(forest);
  std::set<int32_t> node_slots;
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    const std::vector<Path> nodes = testing::NaiveTrie(testing::QuestionPaths(batch, question));
    const int32_t first_slot = trie.question_node_offsets[question] + forest.SlotShift(question);
    for (size_t i = 0; i < nodes.size(); ++i) {
      const auto slot = first_slot + static_cast<int32_t>(i);
      std::vector<int32_t> ancestors;
      for (size_t j = 0; j < nodes.size(); ++j) {
        if (testing::BeginsWith(nodes[i], nodes[j])) {
          ancestors.push_back(first_slot + static_cast<int32_t>(j));
        }
      }
      EXPECT_EQ(testing::VisibleSlots(grid, slot), ancestors);
      EXPECT_EQ(grid.token_ids[slot], nodes[i].back());
      EXPECT_EQ(grid.position_ids[slot], static_cast<int32_t>(nodes[i].size()) - 1);
      EXPECT_TRUE(node_slots.insert(slot).second);
    }
  }
  for (int32_t slot = 0; slot < grid.rows * grid.columns; ++slot) {
    if (node_slots.count(slot) == 0) {
      EXPECT_THAT(testing::VisibleSlots(grid, slot), ElementsAre(slot));
      EXPECT_EQ(grid.token_ids[slot], 0);
      EXPECT_EQ(grid.position_ids[slot], 0);
    }
  }
}

TEST(Forest, VisibilityIsAncestryInNamedBatches) {
  for (const testing::NamedBatch& named : testing::NamedBatches()) {
    SCOPED_TRACE(named.name);
    ExpectVisibilityIsAncestry(named.batch, Layout::kPadded);
    ExpectVisibilityIsAncestry(named.batch, Layout::kFlat);
  }
}

TEST(Forest, VisibilityIsAncestryInRandomBatches) {
  for (int i = 0; i < kNumRandomBatches && !HasFailure(); ++i) {
    SCOPED_TRACE(::testing::Message() << "seed " << testing::Seed(i));
    std::mt19937_64 random(testing::Seed(i));
    const PathBatch batch = testing::RandomBatch(random);
    ExpectVisibilityIsAncestry(batch, Layout::kPadded);
    ExpectVisibilityIsAncestry(batch, Layout::kFlat);
  }
}

}  // namespace
}  // namespace canopy
