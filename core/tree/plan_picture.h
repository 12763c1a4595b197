// Readable views of a trie: the runs that Explain returns, and SVG pictures.
#ifndef CORE_TREE_PLAN_PICTURE_H_
#define CORE_TREE_PLAN_PICTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/tree/path_batch.h"
#include "core/tree/trie.h"

namespace canopy {

// Consecutive tokens of one chain. Branches and endpoints end a run.
struct TrieRun {
  int32_t parent = -1;  // index among the question's runs; -1 = a root
  int32_t start_depth = 0;
  int32_t first_node = 0;  // index of a trie node
  int32_t size = 0;        // number of nodes
  std::vector<int32_t>
      candidates;  // indices in the question of the paths that end at the last node
};

// Returns the runs of one question, depth first.
std::vector<TrieRun> QuestionRuns(const PathBatch& batch, const Trie& trie, int32_t question);

// Returns an SVG document of the forest: one lane per question, runs as boxes from left to right by
// depth, endpoints marked. Draws at most `max_runs` runs and prints how many are left out. All text
// is escaped. `question_ids` may be empty.
std::string DrawForest(const PathBatch& batch, const Trie& trie, int64_t max_runs,
                       const std::vector<std::string>& question_ids);

}  // namespace canopy

#endif  // CORE_TREE_PLAN_PICTURE_H_
