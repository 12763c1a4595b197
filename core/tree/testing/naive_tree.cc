#include "core/tree/testing/naive_tree.h"

#include <algorithm>
#include <set>

namespace canopy::testing {
namespace {

void AppendSubtree(const std::vector<Path>& paths, const Path& node, std::vector<Path>& trie) {
  std::set<int32_t> seen;
  for (const Path& path : paths) {
    if (path.size() > node.size() && BeginsWith(path, node) &&
        seen.insert(path[node.size()]).second) {
      Path child = node;
      child.push_back(path[node.size()]);
      trie.push_back(child);
      AppendSubtree(paths, child, trie);
    }
  }
}

int CountChildren(const std::vector<Path>& trie, const Path& node) {
  return static_cast<int>(std::count_if(trie.begin(), trie.end(), [&node](const Path& other) {
    return other.size() == node.size() + 1 && BeginsWith(other, node);
  }));
}

}  // namespace

Path FullPath(const PathBatch& batch, int32_t question, int32_t path) {
  const auto prefix = batch.Tokens(batch.prefixes[question]);
  const auto suffix = batch.Tokens(batch.suffixes[path]);
  Path full(prefix.begin(), prefix.end());
  full.insert(full.end(), suffix.begin(), suffix.end());
  return full;
}

std::vector<Path> QuestionPaths(const PathBatch& batch, int32_t question) {
  std::vector<Path> paths;
  for (int32_t path = batch.question_offsets[question]; path < batch.question_offsets[question + 1];
       ++path) {
    paths.push_back(FullPath(batch, question, path));
  }
  return paths;
}

std::vector<int32_t> PathQuestions(const PathBatch& batch) {
  std::vector<int32_t> questions;
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    questions.resize(batch.question_offsets[question + 1], question);
  }
  return questions;
}

std::vector<Path> NaiveTrie(const std::vector<Path>& paths) {
  std::vector<Path> trie;
  AppendSubtree(paths, {}, trie);
  return trie;
}

bool BeginsWith(const Path& path, const Path& prefix) {
  return path.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), path.begin());
}

std::vector<int32_t> VisibleSlots(const TokenGrid& forest, int32_t slot) {
  const int32_t row_begin = slot / forest.columns * forest.columns;
  const int32_t column = slot - row_begin;
  std::vector<int32_t> visible;
  for (int32_t key = 0; key < forest.columns; ++key) {
    if (key <= column && column <= forest.exit[row_begin + key]) {
      visible.push_back(row_begin + key);
    }
  }
  return visible;
}

std::vector<NaiveChain> NaiveChains(const std::vector<Path>& trie) {
  std::vector<NaiveChain> chains;
  for (const Path& node : trie) {
    Path parent = node;
    parent.pop_back();
    if (!parent.empty() && CountChildren(trie, parent) == 1) {
      continue;
    }
    NaiveChain chain{static_cast<int32_t>(parent.size()), 1};
    Path last = node;
    while (CountChildren(trie, last) == 1) {
      last = *std::find_if(trie.begin(), trie.end(), [&last](const Path& other) {
        return other.size() == last.size() + 1 && BeginsWith(other, last);
      });
      ++chain.size;
    }
    chains.push_back(chain);
  }
  return chains;
}

}  // namespace canopy::testing
