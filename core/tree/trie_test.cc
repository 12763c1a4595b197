#include "core/tree/trie.h"

#include <algorithm>
#include <limits>
#include <map>

#include "core/tree/sub_trie.h"
#include "core/tree/testing/naive_tree.h"
#include "core/tree/testing/random_batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using testing::BeginsWith;
using ::testing::ElementsAre;
using testing::NaiveTrie;
using testing::Path;

constexpr int kNumRandomBatches = 3000;

// Compares the nodes of one question, which begin at `first_node`, with the naive trie's nodes.
void ExpectQuestionMatches(const Trie& trie, int32_t first_node, const std::vector<Path>& nodes) {
  std::map<Path, int32_t> index;
  for (size_t i = 0; i < nodes.size(); ++i) {
    index[nodes[i]] = first_node + static_cast<int32_t>(i);
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto node = first_node + static_cast<int32_t>(i);
    Path parent = nodes[i];
    parent.pop_back();
    EXPECT_EQ(trie.token[node], nodes[i].back());
    EXPECT_EQ(trie.depth[node], static_cast<int32_t>(parent.size()));
    EXPECT_EQ(trie.parent[node], parent.empty() ? -1 : index.at(parent));
    const auto in_subtree = [&](const Path& other) { return BeginsWith(other, nodes[i]); };
    const auto last = std::find_if(nodes.rbegin(), nodes.rend(), in_subtree);
    EXPECT_EQ(trie.exit[node], first_node + (nodes.rend() - last) - 1);
  }
}

void ExpectTrieMatches(const PathBatch& batch) {
  const auto trie = BuildTrie(batch);
  ASSERT_TRUE(trie.ok()) << trie.status();
  ASSERT_EQ(trie->num_questions(), batch.num_questions());
  ASSERT_EQ(trie->question_node_offsets.front(), 0);
  ASSERT_EQ(trie->question_node_offsets.back(), trie->num_nodes());
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    SCOPED_TRACE(::testing::Message() << "question " << question);
    const std::vector<Path> nodes = NaiveTrie(testing::QuestionPaths(batch, question));
    const int32_t first_node = trie->question_node_offsets[question];
    ASSERT_EQ(trie->question_node_offsets[question + 1] - first_node,
              static_cast<int32_t>(nodes.size()));
    ExpectQuestionMatches(*trie, first_node, nodes);
    for (int32_t path = batch.question_offsets[question];
         path < batch.question_offsets[question + 1]; ++path) {
      EXPECT_EQ(nodes[trie->path_endpoint[path] - first_node],
                testing::FullPath(batch, question, path));
    }
  }
}

TEST(Trie, DrawnExample) {
  PathBatch batch;
  batch.AddQuestion({}, {{'A', 'B', 'C'}, {'A', 'B', 'D'}, {'A', 'E'}});
  const auto trie = BuildTrie(batch);
  ASSERT_TRUE(trie.ok());
  EXPECT_THAT(trie->token, ElementsAre('A', 'B', 'C', 'D', 'E'));
  EXPECT_THAT(trie->depth, ElementsAre(0, 1, 2, 2, 1));
  EXPECT_THAT(trie->exit, ElementsAre(4, 3, 2, 3, 4));
  EXPECT_THAT(trie->parent, ElementsAre(-1, 0, 1, 1, 0));
  EXPECT_THAT(trie->path_endpoint, ElementsAre(2, 3, 4));
}

TEST(Trie, ChildrenKeepTheOrderOfFirstAppearanceWhateverComesBetween) {
  PathBatch batch;
  batch.AddQuestion({}, {{1, 5, 6}, {2}, {1, 5, 7}, {0}, {1, 4}});
  const auto trie = BuildTrie(batch);
  ASSERT_TRUE(trie.ok());
  EXPECT_THAT(trie->token, ElementsAre(1, 5, 6, 7, 4, 2, 0));
}

TEST(Trie, NamedBatchesMatchBruteForce) {
  for (const testing::NamedBatch& named : testing::NamedBatches()) {
    SCOPED_TRACE(named.name);
    ExpectTrieMatches(named.batch);
  }
}

TEST(Trie, RandomBatchesMatchBruteForce) {
  for (int i = 0; i < kNumRandomBatches && !HasFailure(); ++i) {
    SCOPED_TRACE(::testing::Message() << "seed " << testing::Seed(i));
    std::mt19937_64 random(testing::Seed(i));
    ExpectTrieMatches(testing::RandomBatch(random));
  }
}

TEST(Trie, ManyChildrenAreFoundAgainAfterSplitsAboveThem) {
  // The children of 1 2 3 move into a hash table; then their parent run is split twice; then the
  // same children are added again.
  std::vector<Path> paths;
  paths.reserve(102);
  for (int32_t child = 0; child < 50; ++child) {
    paths.push_back({1, 2, 3, child, 7});
  }
  paths.push_back({1, 2, 9});
  paths.push_back({1, 9});
  for (int32_t child = 49; child >= 0; --child) {
    paths.push_back({1, 2, 3, child, 8});
  }
  PathBatch batch;
  batch.AddQuestion({}, paths);
  ExpectTrieMatches(batch);
}

TEST(Trie, NegativeAndLargestTokensAreTokensLikeOthers) {
  constexpr int32_t kMin = std::numeric_limits<int32_t>::min();
  constexpr int32_t kMax = std::numeric_limits<int32_t>::max();
  PathBatch batch;
  std::vector<Path> paths;
  for (int32_t i = 0; i < 12; ++i) {
    paths.push_back({kMin + i, kMax - i});
    paths.push_back({kMax - i, kMin + i});
    paths.push_back({kMin + i, -1});
  }
  batch.AddQuestion({}, paths);
  ExpectTrieMatches(batch);
}

TEST(Trie, MoreNodesThanIndicesIsRefused) {
  // Many questions have the same prefix of a million tokens.
  constexpr int32_t kPrefixTokens = 1 << 20;
  constexpr int32_t kNumQuestions = 2048;
  PathBatch batch;
  batch.tokens.resize(kPrefixTokens);
  batch.prefixes.assign(kNumQuestions, {0, kPrefixTokens});
  batch.suffixes.assign(kNumQuestions, {0, 0});
  for (int32_t question = 0; question <= kNumQuestions; ++question) {
    batch.question_offsets.push_back(question);
  }
  const auto trie = BuildTrie(batch);
  EXPECT_EQ(trie.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(trie.status().message()), ::testing::HasSubstr("2147483648"));
}

TEST(SubTrie, IsTheTrieOfTheSelectedPaths) {
  for (int i = 0; i < kNumRandomBatches && !HasFailure(); ++i) {
    SCOPED_TRACE(::testing::Message() << "seed " << testing::Seed(i));
    std::mt19937_64 random(testing::Seed(i));
    const PathBatch batch = testing::RandomBatch(random);
    const auto trie = BuildTrie(batch);
    ASSERT_TRUE(trie.ok());
    for (int32_t question = 0; question < batch.num_questions(); ++question) {
      std::vector<std::pair<int32_t, int32_t>> selected;  // (endpoint, path) pairs
      for (int32_t path = batch.question_offsets[question];
           path < batch.question_offsets[question + 1]; ++path) {
        if (random() % 2 == 0) {
          selected.emplace_back(trie->path_endpoint[path], path);
        }
      }
      std::sort(selected.begin(), selected.end());
      std::vector<int32_t> endpoints;
      std::vector<Path> paths;
      for (const auto& [endpoint, path] : selected) {
        endpoints.push_back(endpoint);
        paths.push_back(testing::FullPath(batch, question, path));
      }
      const Trie part = SelectPaths(*trie, endpoints);
      const std::vector<Path> nodes = NaiveTrie(paths);
      ASSERT_EQ(part.num_nodes(), static_cast<int32_t>(nodes.size()));
      EXPECT_THAT(part.question_node_offsets, ElementsAre(0, part.num_nodes()));
      ExpectQuestionMatches(part, 0, nodes);
      ASSERT_EQ(part.path_endpoint.size(), paths.size());
      for (size_t k = 0; k < paths.size(); ++k) {
        EXPECT_EQ(nodes[part.path_endpoint[k]], paths[k]);
      }
    }
  }
}

}  // namespace
}  // namespace canopy
