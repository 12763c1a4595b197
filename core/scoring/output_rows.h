// Which rows of hidden states the outputs of a forward need, so that one forward serves all of
// them, and which entries of the answer read which row. Host only.
//
//   paths  A B C | A B D, prefix A       rows           C D | A B    (slots of the forward)
//   log-probs of B C D                   distributions  after A, after B
//                                        targets        B | C D
//                                        path 0: B C    path 1: B D
#ifndef CORE_SCORING_OUTPUT_ROWS_H_
#define CORE_SCORING_OUTPUT_ROWS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "core/tree/token_reads.h"
#include "core/tree/tree_plan.h"

namespace canopy {

// Next-token distributions, each computed once, and the tokens looked up in them.
struct DistributionReads {
  std::vector<int32_t> rows;                // [distributions] row of its hidden state
  std::vector<int64_t> target_offsets;      // [distributions + 1], into targets
  std::vector<int32_t> targets;             // [targets] token ids
  TokenEntries entries;                     // of the part's paths
  std::vector<int32_t> entry_distribution;  // [entries]
  std::vector<int32_t> entry_target;        // [entries] index of targets
};

// Tokens whose own hidden state is read.
struct ValueReads {
  std::vector<int32_t> rows;         // [tokens], each once
  TokenEntries entries;              // of the part's paths
  std::vector<int32_t> entry_token;  // [entries] index of rows
};

struct OutputRows {
  std::vector<int32_t> slots;  // [rows] grid slots: TreePlan::endpoints, then others, each once
  std::optional<DistributionReads> distributions;
  std::optional<ValueReads> values;
};

// What to read besides the endpoints.
struct TokenReadOptions {
  bool distributions = false;
  bool values = false;
  TokenScope scope = TokenScope::kCandidate;
};

// Linear in the grid and in the entries.
OutputRows PlanOutputRows(const TreePlan& plan, const TokenReadOptions& options);

}  // namespace canopy

#endif  // CORE_SCORING_OUTPUT_ROWS_H_
