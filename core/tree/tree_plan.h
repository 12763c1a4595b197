// Everything the device needs for one forward, computed on the host: immutable once built.
//
// A grid is rows x columns of tokens that the layers run over, whatever the backend:
//   path     one row a path, causal, right padded
//   padded   one row a question, its trie in depth-first order, right padded
//   flat     one row, all tries one after the other
// In a forest row, slot i reads slot j exactly when j <= i <= exit[j]; padding has exit = itself.
//
//   paths  A B C | A B D | A E      slot   0 1 2 3 4
//                                   token  A B C D E
//                                   depth  0 1 2 2 1   (= position id)
//                                   exit   4 3 2 3 4
#ifndef CORE_TREE_TREE_PLAN_H_
#define CORE_TREE_TREE_PLAN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tree/path_batch.h"
#include "core/tree/route.h"
#include "core/tree/trie.h"

namespace canopy {

struct TokenGrid {
  int32_t rows = 0;
  int32_t columns = 0;
  std::vector<int32_t> token_ids;     // [rows, columns]; padding is 0
  std::vector<int32_t> position_ids;  // [rows, columns]; padding is 0
  std::vector<int32_t> exit;  // [rows, columns] column in the same row; empty on the path backend
};

// Chains that start at one depth, as one causal attention call: queries are right padded to the
// longest chain; keys are the ancestors, then the same queries. Indices are flat grid slots.
struct SegmentGroup {
  int32_t start_depth = 0;              // ancestors of every chain in the group
  int32_t rows = 0;                     // chains
  int32_t query_length = 0;             // longest chain
  std::vector<int32_t> query_index;     // [rows, query_length]; padding repeats the row's last slot
  std::vector<int32_t> ancestor_index;  // [rows, start_depth], root first
};

struct SegmentPlan {
  std::vector<SegmentGroup> groups;  // by start depth
  // [grid rows x columns]: where a slot's output stands among the groups' rows, concatenated.
  // Padding slots of the grid read output 0.
  std::vector<int32_t> restore_index;
};

struct TreePlan {
  Backend backend = Backend::kPath;
  TokenGrid grid;
  std::optional<SegmentPlan> segments;  // kSegmented only
  std::vector<int32_t> paths;           // paths answered by this plan, as indices of the request
  std::vector<int32_t> endpoints;       // [paths] flat grid slot of each one's last token

  // Slots that the device runs, padding included.
  int64_t computed_tokens() const { return int64_t{grid.rows} * grid.columns; }
};

// Whether to build a trie although the rules could do without (Explain and pictures want one).
enum class TrieUse { kWhereNeeded, kAlways };

// One request, planned and routed whole, then built in parts that respect a token budget.
// Immutable and thread-compatible; shares ownership of the batch.
class RequestPlan {
 public:
  // Plans `batch` by the reference rules. INVALID_ARGUMENT for a malformed batch or a negative mask
  // budget; FAILED_PRECONDITION for Backend::kFused or a tree backend on unsupported layers;
  // RESOURCE_EXHAUSTED when one path alone is longer than max_batch_tokens (> 0).
  static absl::StatusOr<RequestPlan> Create(std::shared_ptr<const PathBatch> batch,
                                            const RouteOptions& options, int64_t max_batch_tokens,
                                            TrieUse trie_use = TrieUse::kWhereNeeded);

  const PathBatch& batch() const { return *batch_; }
  const PlanCounts& counts() const { return counts_; }
  const Route& route() const { return route_; }
  // Null where none was built.
  const Trie* trie() const { return trie_.get(); }

  // Forwards that the budget asks for: whole questions first, then paths of one question. Every
  // part uses the whole's route and answers paths that no other part does.
  int32_t num_parts() const { return static_cast<int32_t>(part_offsets_.size()) - 1; }

  // Builds part `part` in 0 .. num_parts() - 1.
  TreePlan BuildPart(int32_t part) const;

 private:
  RequestPlan() = default;

  std::shared_ptr<const PathBatch> batch_;
  std::shared_ptr<const Trie> trie_;
  PlanCounts counts_;
  Route route_;
  // Paths in the order they are cut, and where each part starts in it.
  std::vector<int32_t> part_paths_;
  std::vector<int32_t> part_offsets_;
};

}  // namespace canopy

#endif  // CORE_TREE_TREE_PLAN_H_
