#include "core/tree/token_reads.h"

#include <algorithm>

namespace canopy {
namespace {

// Returns each slot's parent slot, or -1 for a root and for padding without a predecessor.
std::vector<int32_t> SlotParents(const TreePlan& plan) {
  const TokenGrid& grid = plan.grid;
  std::vector<int32_t> parents(grid.token_ids.size(), -1);
  std::vector<int32_t> ancestors;  // slots whose subtree is incomplete
  for (int32_t row = 0; row < grid.rows; ++row) {
    const int32_t begin = row * grid.columns;
    ancestors.clear();
    for (int32_t column = 0; column < grid.columns; ++column) {
      const int32_t slot = begin + column;
      if (plan.backend == Backend::kPath) {
        parents[slot] = column == 0 ? -1 : slot - 1;
        continue;
      }
      while (!ancestors.empty() && grid.exit[ancestors.back()] < column) {
        ancestors.pop_back();
      }
      parents[slot] = ancestors.empty() ? -1 : ancestors.back();
      ancestors.push_back(slot);
    }
  }
  return parents;
}

// Appends the entries of a path of `length` tokens whose scope begins at index `first`.
void AppendPath(int64_t length, int64_t first, FirstTokens first_tokens, TokenEntries* entries) {
  if (first_tokens == FirstTokens::kLeaveOut) {
    first = std::max<int64_t>(first, 1);
  }
  entries->first_token.push_back(static_cast<int32_t>(first));
  entries->offsets.push_back(entries->offsets.back() + std::max<int64_t>(length - first, 0));
}

}  // namespace

TokenEntries ListTokenEntries(const PathBatch& batch, TokenScope scope, FirstTokens first_tokens) {
  TokenEntries entries;
  entries.offsets.reserve(batch.suffixes.size() + 1);
  entries.first_token.reserve(batch.suffixes.size());
  entries.offsets.push_back(0);
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    const int64_t first = scope == TokenScope::kPath ? 0 : batch.prefixes[question].size;
    for (int32_t path = batch.question_offsets[question];
         path < batch.question_offsets[question + 1]; ++path) {
      AppendPath(batch.PathLength(question, path), first, first_tokens, &entries);
    }
  }
  return entries;
}

TokenReads CollectTokenReads(const TreePlan& plan, TokenScope scope, FirstTokens first_tokens) {
  const std::vector<int32_t> parents = SlotParents(plan);
  std::vector<int32_t> slot_to_read(parents.size(), -1);
  TokenReads reads;
  reads.entries.offsets.push_back(0);
  for (size_t path = 0; path < plan.endpoints.size(); ++path) {
    const int32_t endpoint = plan.endpoints[path];
    AppendPath(plan.grid.position_ids[endpoint] + 1,
               scope == TokenScope::kPath ? 0 : plan.prefix_tokens[path], first_tokens,
               &reads.entries);
    const int64_t begin = reads.entries.offsets[path];
    const int64_t end = reads.entries.offsets[path + 1];
    reads.path_reads.resize(static_cast<size_t>(end));
    // Walks from the endpoint up to the first token in scope.
    int32_t slot = endpoint;
    for (int64_t entry = end - 1; entry >= begin; --entry, slot = parents[slot]) {
      if (slot_to_read[slot] < 0) {
        slot_to_read[slot] = static_cast<int32_t>(reads.slots.size());
        reads.slots.push_back(slot);
        reads.source_slots.push_back(parents[slot]);
      }
      reads.path_reads[static_cast<size_t>(entry)] = slot_to_read[slot];
    }
  }
  return reads;
}

}  // namespace canopy
