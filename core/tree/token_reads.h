// Which grid slots the per-token outputs of a forward read, each once however many paths share it.
//
//   paths  A B C | A B D, prefix A        reads (candidate scope)    B  C  D
//   slots  0 1 2 3 = A B C D              slots                      1  2  3
//                                         source_slots               0  1  1
//                                         path 0: reads 0 1          path 1: reads 0 2
//
// A token's distribution stands in the row of the token before it on its path (its source); its
// value stands in its own row.
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

// The first token of a path has no distribution before it.
enum class FirstTokens { kInclude, kLeaveOut };

// Where the per-token entries of each path stand in lists that hold those of all paths.
struct TokenEntries {
  std::vector<int64_t> offsets;      // [paths + 1], into the lists; empty = no lists
  std::vector<int32_t> first_token;  // [paths] index in the path of its first entry

  int64_t size() const { return offsets.empty() ? 0 : offsets.back(); }
};

// The entries of a request's paths, in its order.
TokenEntries ListTokenEntries(const PathBatch& batch, TokenScope scope, FirstTokens first_tokens);

// Thread-compatible value. Host.
struct TokenReads {
  std::vector<int32_t> slots;         // [reads] of the token, each slot once
  std::vector<int32_t> source_slots;  // [reads] of the token before it; -1 = none
  TokenEntries entries;               // paths as in TreePlan::paths
  std::vector<int32_t> path_reads;    // [entries] indices of reads, in path order
};

// Linear in the grid and in the entries.
TokenReads CollectTokenReads(const TreePlan& plan, TokenScope scope, FirstTokens first_tokens);

}  // namespace canopy

#endif  // CORE_TREE_TOKEN_READS_H_
