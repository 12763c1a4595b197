#include "core/tree/plan_picture.h"

#include <string>
#include <utility>
#include <vector>

#include "core/tree/testing/naive_tree.h"
#include "core/tree/testing/random_batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Path;

constexpr int kNumRandomBatches = 1000;

Trie TrieOf(const PathBatch& batch) {
  auto trie = BuildTrie(batch);
  EXPECT_TRUE(trie.ok()) << trie.status();
  return *std::move(trie);
}

int CountOf(const std::string& text, const std::string& word) {
  int count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

// Returns the name of a tag or an attribute that begins at `at`.
std::string NameAt(const std::string& text, size_t at) {
  return text.substr(at, text.find_first_of(" />", at) - at);
}

// Checks the subset of XML that pictures use: tags nest, attributes have double quotes, & begins an
// entity, and there are no control characters.
bool WellFormed(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t at = 0; at < xml.size(); ++at) {
    if (static_cast<unsigned char>(xml[at]) < ' ' && xml[at] != '\n') {
      return false;
    }
    if (xml[at] == '&' && xml.find(';', at) > at + 5) {
      return false;
    }
    if (xml[at] != '<') {
      continue;
    }
    const size_t end = xml.find('>', at);
    if (end == std::string::npos) {
      return false;
    }
    const std::string tag = xml.substr(at, end + 1 - at);
    if (tag.find('<', 1) != std::string::npos || CountOf(tag, "\"") % 2 != 0) {
      return false;
    }
    if (tag[1] == '/') {
      if (open.empty() || open.back() != NameAt(xml, at + 2)) {
        return false;
      }
      open.pop_back();
    } else if (tag[tag.size() - 2] != '/') {
      open.push_back(NameAt(xml, at + 1));
    }
    at = end;
  }
  return open.empty();
}

TEST(QuestionRuns, SplitAtBranchesAndEndpoints) {
  PathBatch batch;
  batch.AddQuestion({9}, {{9}});
  batch.AddQuestion({1, 2}, {{3, 4}, {3, 5, 6}, {3}, {3, 4}, {3, 5, 6, 7}});
  const Trie trie = TrieOf(batch);
  const std::vector<TrieRun> runs = QuestionRuns(batch, trie, 1);
  ASSERT_EQ(runs.size(), 4U);

  EXPECT_EQ(runs[0].parent, -1);
  EXPECT_EQ(runs[0].start_depth, 0);
  EXPECT_EQ(runs[0].first_node, 2);
  EXPECT_EQ(runs[0].size, 3);
  EXPECT_THAT(runs[0].candidates, ElementsAre(2));

  EXPECT_EQ(runs[1].parent, 0);
  EXPECT_EQ(runs[1].start_depth, 3);
  EXPECT_EQ(runs[1].size, 1);
  EXPECT_THAT(runs[1].candidates, ElementsAre(0, 3));

  EXPECT_EQ(runs[2].parent, 0);
  EXPECT_EQ(runs[2].size, 2);
  EXPECT_THAT(runs[2].candidates, ElementsAre(1));

  EXPECT_EQ(runs[3].parent, 2);
  EXPECT_EQ(runs[3].start_depth, 5);
  EXPECT_EQ(runs[3].size, 1);
  EXPECT_THAT(runs[3].candidates, ElementsAre(4));
}

// Returns the tokens from the root to the end of a run.
Path RunPath(const Trie& trie, const std::vector<TrieRun>& runs, int32_t run) {
  Path path;
  for (; run >= 0; run = runs[run].parent) {
    const auto first = trie.token.begin() + runs[run].first_node;
    path.insert(path.begin(), first, first + runs[run].size);
  }
  return path;
}

TEST(QuestionRuns, SpellOutTheirCandidatesInRandomBatches) {
  for (int i = 0; i < kNumRandomBatches && !HasFailure(); ++i) {
    SCOPED_TRACE(::testing::Message() << "seed " << testing::Seed(i));
    std::mt19937_64 random(testing::Seed(i));
    const PathBatch batch = testing::RandomBatch(random);
    const Trie trie = TrieOf(batch);
    for (int32_t question = 0; question < batch.num_questions(); ++question) {
      const std::vector<TrieRun> runs = QuestionRuns(batch, trie, question);
      const std::vector<Path> paths = testing::QuestionPaths(batch, question);
      int32_t num_nodes = 0;
      size_t num_candidates = 0;
      std::vector<int> num_children(runs.size());
      for (size_t run = 0; run < runs.size(); ++run) {
        const Path path = RunPath(trie, runs, static_cast<int32_t>(run));
        EXPECT_EQ(static_cast<size_t>(runs[run].start_depth + runs[run].size), path.size());
        for (const int32_t candidate : runs[run].candidates) {
          EXPECT_EQ(paths[candidate], path);
        }
        num_candidates += runs[run].candidates.size();
        num_nodes += runs[run].size;
        if (runs[run].parent >= 0) {
          EXPECT_LT(runs[run].parent, static_cast<int32_t>(run));
          ++num_children[runs[run].parent];
        }
      }
      for (size_t run = 0; run < runs.size(); ++run) {
        // A run with a single child ends at an endpoint; otherwise both would be one run.
        EXPECT_TRUE(num_children[run] != 1 || !runs[run].candidates.empty());
      }
      EXPECT_EQ(num_candidates, paths.size());
      EXPECT_EQ(static_cast<size_t>(num_nodes), testing::NaiveTrie(paths).size());
    }
  }
}

TEST(DrawForest, DrawsEachRunAndMarksEachEnd) {
  PathBatch batch;
  batch.AddQuestion({1, 2}, {{3, 4}, {3, 5, 6}, {3}});
  batch.AddQuestion({}, {{1}, {2}});
  const std::string svg = DrawForest(batch, TrieOf(batch), 100, {});
  EXPECT_TRUE(WellFormed(svg)) << svg;
  EXPECT_EQ(CountOf(svg, "class=\"run\""), 5);
  EXPECT_EQ(CountOf(svg, "class=\"end\""), 5);
  EXPECT_EQ(CountOf(svg, "class=\"edge\""), 2);
  EXPECT_EQ(CountOf(svg, "class=\"lane\""), 2);
  EXPECT_THAT(svg, HasSubstr("question 1"));
  EXPECT_THAT(svg, Not(HasSubstr("not drawn")));
}

TEST(DrawForest, CountsWhatItDoesNotDraw) {
  PathBatch batch;
  batch.AddQuestion({1}, {{2}, {3}});
  batch.AddQuestion({1}, {{2}, {3}});
  const Trie trie = TrieOf(batch);
  for (const auto& [max_runs, num_drawn] : {std::pair{-1, 0}, {0, 0}, {1, 1}, {4, 4}, {5, 5}}) {
    const std::string svg = DrawForest(batch, trie, max_runs, {});
    EXPECT_TRUE(WellFormed(svg)) << svg;
    EXPECT_EQ(CountOf(svg, "class=\"run\""), num_drawn);
    EXPECT_THAT(svg, HasSubstr(std::to_string(6 - num_drawn) + " more runs are not drawn"));
  }
  EXPECT_THAT(DrawForest(batch, trie, 6, {}), Not(HasSubstr("not drawn")));
}

TEST(DrawForest, EscapesNames) {
  PathBatch batch;
  batch.AddQuestion({}, {{1}});
  const std::string svg =
      DrawForest(batch, TrieOf(batch), 10, {"<script>\"a\" & 'b'\x01</script>\xEF\xBF\xBF"});
  EXPECT_TRUE(WellFormed(svg)) << svg;
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39; &lt;/script&gt;"));
  EXPECT_THAT(svg, Not(HasSubstr("\xEF\xBF\xBF")));
}

TEST(DrawForest, ListsAFewOfManyDuplicates) {
  PathBatch batch;
  batch.AddQuestion({}, std::vector<Path>(30, Path{1}));
  EXPECT_THAT(DrawForest(batch, TrieOf(batch), 10, {}), HasSubstr(">0 1 2 3 +26<"));
}

TEST(DrawForest, NamedBatchesAreWellFormed) {
  for (const testing::NamedBatch& named : testing::NamedBatches()) {
    SCOPED_TRACE(named.name);
    EXPECT_TRUE(WellFormed(DrawForest(named.batch, TrieOf(named.batch), 50, {named.name})));
  }
}

}  // namespace
}  // namespace canopy
