#include "core/tree/token_reads.h"

#include <algorithm>

namespace canopy {
namespace {

// The slot before each slot on its path; -1 at a root, and on padding that follows nothing.
std::vector<int32_t> SlotParents(const TreePlan& plan) {
  const TokenGrid& grid = plan.grid;
  std::vector<int32_t> parents(grid.token_ids.size(), -1);
  std::vector<int32_t> ancestors;  // slots whose subtree is open
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

}  // namespace

TokenReads CollectTokenReads(const TreePlan& plan, TokenScope scope, FirstTokens first_tokens) {
  const std::vector<int32_t> parents = SlotParents(plan);
  std::vector<int32_t> slot_to_read(parents.size(), -1);
  TokenReads reads;
  reads.path_offsets.push_back(0);
  for (size_t path = 0; path < plan.endpoints.size(); ++path) {
    const int32_t endpoint = plan.endpoints[path];
    const int32_t length = plan.grid.position_ids[endpoint] + 1;
    int32_t first = scope == TokenScope::kPath ? 0 : plan.prefix_tokens[path];
    if (first_tokens == FirstTokens::kLeaveOut) {
      first = std::max(first, 1);
    }
    reads.first_token.push_back(first);
    const int64_t begin = reads.path_offsets.back();
    const int64_t end = begin + std::max(length - first, 0);
    reads.path_offsets.push_back(end);
    reads.path_reads.resize(static_cast<size_t>(end));
    // From the endpoint up to the first token in scope.
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
