// Finds the grid slots that the per-token outputs of a forward read. Paths that share a slot read
// it once.
//
//   paths  A B C | A B D, prefix A        reads (candidate scope)    B  C  D
//   slots  0 1 2 3 = A B C D              slots                      1  2  3
//                                         source_slots               0  1  1
//                                         path 0: reads 0 1          path 1: reads 0 2
//
// A token's distribution is computed from the slot of the token before it on its path (its source).
// Its value is computed from its own slot.
#ifndef CORE_TREE_TOKEN_READS_H_
#define CORE_TREE_TOKEN_READS_H_

#include <cstdint>
#include <vector>

#include "core/tree/path_batch.h"
#include "core/tree/tree_plan.h"

namespace canopy {

enum class TokenScope {
  kCandidate,  // the candidate's own tokens
  kPath,       // the whole path, prefix included
};

// Includes or leaves out the first token of a path, which has no distribution before it.
enum class FirstTokens { kInclude, kLeaveOut };

// The position of each path's per-token entries in lists that hold the entries of all paths.
struct TokenEntries {
  std::vector<int64_t> offsets;      // [paths + 1], offsets into the lists; empty = no lists
  std::vector<int32_t> first_token;  // [paths], index of the path's first entry within the path

  int64_t size() const { return offsets.empty() ? 0 : offsets.back(); }
};

// Returns the entries of a request's paths, in the order of the request.
TokenEntries ListTokenEntries(const PathBatch& batch, TokenScope scope, FirstTokens first_tokens);

// Thread-compatible value. Host.
struct TokenReads {
  std::vector<int32_t> slots;         // [reads], the token's slot; each slot appears once
  std::vector<int32_t> source_slots;  // [reads], slot of the token before it; -1 = none
  TokenEntries entries;               // for the paths of TreePlan::paths, in that order
  std::vector<int32_t> path_reads;    // [entries], indices into the reads, in path order
};

// Returns the reads of all paths of `plan`. Linear in the slots of the grid and in the entries.
TokenReads CollectTokenReads(const TreePlan& plan, TokenScope scope, FirstTokens first_tokens);

}  // namespace canopy

#endif  // CORE_TREE_TOKEN_READS_H_
