// Finds the rows of hidden states that the outputs of a forward need, so that one forward serves
// all outputs, and the row that each entry of the answer reads. Host only.
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

// Next-token distributions, each computed once, and the target tokens that are looked up in them.
struct DistributionReads {
  std::vector<int32_t> rows;                // [distributions], the row of its source's hidden state
  std::vector<int64_t> target_offsets;      // [distributions + 1], offsets into targets
  std::vector<int32_t> targets;             // [targets], token ids
  TokenEntries entries;                     // entries of the part's paths
  std::vector<int32_t> entry_distribution;  // [entries], index of a distribution
  std::vector<int32_t> entry_target;        // [entries], index of a target
};

// Tokens whose own hidden states are read.
struct ValueReads {
  std::vector<int32_t> rows;         // [tokens], rows of hidden states; each appears once
  TokenEntries entries;              // entries of the part's paths
  std::vector<int32_t> entry_token;  // [entries], index into rows
};

struct OutputRows {
  // [rows] grid slots: TreePlan::endpoints first; other slots once each
  std::vector<int32_t> slots;
  std::optional<DistributionReads> distributions;
  std::optional<ValueReads> values;
};

// The rows to read in addition to the endpoints.
struct TokenReadOptions {
  bool distributions = false;
  bool values = false;
  TokenScope scope = TokenScope::kCandidate;
};

// Returns the rows for one part. Linear in the slots of the grid and in the entries.
OutputRows PlanOutputRows(const TreePlan& plan, const TokenReadOptions& options);

}  // namespace canopy

#endif  // CORE_SCORING_OUTPUT_ROWS_H_
