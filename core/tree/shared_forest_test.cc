#include "core/tree/shared_forest.h"

#include <algorithm>
#include <iterator>
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
using testing::Path;

Path TokensAt(const TokenGrid& grid, const std::vector<int32_t>& slots) {
  Path tokens;
  for (const int32_t slot : slots) {
    tokens.push_back(grid.token_ids[slot]);
  }
  return tokens;
}

// Returns the nodes that have no sibling, counted from the root.
Path Stem(const std::vector<Path>& trie) {
  Path stem;
  for (size_t length = 1;; ++length) {
    std::vector<Path> level;
    std::copy_if(trie.begin(), trie.end(), std::back_inserter(level),
                 [&](const Path& node) { return node.size() == length; });
    if (level.size() != 1) {
      return stem;
    }
    stem = level.front();
  }
}

// Returns the number of slots if each distinct stem node is stored once, however many questions
// have it.
size_t NaiveSize(const PathBatch& batch) {
  size_t size = 0;
  std::set<Path> stem_nodes;
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    const std::vector<Path> trie = testing::NaiveTrie(testing::QuestionPaths(batch, question));
    Path stem = Stem(trie);
    size += trie.size() - stem.size();
    for (; !stem.empty(); stem.pop_back()) {
      stem_nodes.insert(stem);
    }
  }
  return size + stem_nodes.size();
}

TEST(SharedForest, DrawnExample) {
  PathBatch batch;
  batch.AddQuestion({}, {{7, 1, 3}, {7, 1, 4}});
  batch.AddQuestion({7}, {{2, 5}, {2, 6}});
  const SharedForest forest = BuildSharedForest(*BuildTrie(batch), 0, 2);
  EXPECT_EQ(forest.grid.rows, 1);
  EXPECT_EQ(forest.grid.columns, 7);
  EXPECT_THAT(forest.grid.token_ids, ElementsAre(7, 1, 3, 4, 2, 5, 6));
  EXPECT_THAT(forest.grid.position_ids, ElementsAre(0, 1, 2, 2, 1, 2, 2));
  EXPECT_THAT(forest.grid.exit, ElementsAre(6, 3, 2, 3, 6, 5, 6));
  EXPECT_THAT(forest.node_slot, ElementsAre(0, 1, 2, 3, 0, 4, 5, 6));
}

TEST(SharedForest, RepeatedQuestionsOfOneCandidateAreOneChain) {
  PathBatch batch;
  for (int question = 0; question < 3; ++question) {
    batch.AddQuestion({4, 5}, {{6}});
  }
  const SharedForest forest = BuildSharedForest(*BuildTrie(batch), 0, 3);
  EXPECT_THAT(forest.grid.token_ids, ElementsAre(4, 5, 6));
  EXPECT_THAT(forest.node_slot, ElementsAre(0, 1, 2, 0, 1, 2, 0, 1, 2));
}

TEST(SharedForest, QuestionsMeetWhateverStandsBetweenThem) {
  PathBatch batch;
  batch.AddQuestion({4, 5}, {{6}, {7}});
  batch.AddQuestion({1}, {{2}});
  batch.AddQuestion({4, 5}, {{8}, {9}});
  const SharedForest forest = BuildSharedForest(*BuildTrie(batch), 0, 3);
  EXPECT_THAT(forest.grid.token_ids, ElementsAre(1, 2, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(forest.grid.exit, ElementsAre(1, 1, 7, 7, 4, 5, 6, 7));
  EXPECT_THAT(forest.node_slot, ElementsAre(2, 3, 4, 5, 0, 1, 2, 3, 6, 7));
}

TEST(SharedForest, EveryPathReadsItselfOnRandomBatches) {
  for (int i = 0; i < 2000 && !HasFailure(); ++i) {
    SCOPED_TRACE(::testing::Message() << "seed " << testing::Seed(i));
    std::mt19937_64 random(testing::Seed(i));
    const PathBatch batch = testing::RandomBatch(random);
    const Trie trie = *BuildTrie(batch);
    const SharedForest forest = BuildSharedForest(trie, 0, batch.num_questions());
    EXPECT_EQ(static_cast<size_t>(forest.grid.columns), NaiveSize(batch));
    EXPECT_EQ(forest.node_slot.size(), static_cast<size_t>(trie.num_nodes()));
    const std::vector<int32_t> questions = testing::PathQuestions(batch);
    for (int32_t path = 0; path < batch.num_paths(); ++path) {
      const std::vector<int32_t> slots =
          testing::VisibleSlots(forest.grid, forest.node_slot[trie.path_endpoint[path]]);
      EXPECT_EQ(TokensAt(forest.grid, slots), testing::FullPath(batch, questions[path], path));
      for (size_t k = 0; k < slots.size(); ++k) {
        EXPECT_EQ(forest.grid.position_ids[slots[k]], static_cast<int32_t>(k));
      }
    }
  }
}

}  // namespace
}  // namespace canopy
