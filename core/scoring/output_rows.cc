#include "core/scoring/output_rows.h"

#include <cstddef>
#include <numeric>
#include <utility>

namespace canopy {
namespace {

// Assigns a row of hidden states to each grid slot that is read.
class RowTable {
 public:
  RowTable(const TreePlan& plan, std::vector<int32_t>* slots)
      : slot_to_row_(plan.grid.token_ids.size(), -1), slots_(*slots) {
    slots_ = plan.endpoints;
    for (size_t row = 0; row < slots_.size(); ++row) {
      slot_to_row_[slots_[row]] = static_cast<int32_t>(row);
    }
  }

  int32_t RowOf(int32_t slot) {
    int32_t& row = slot_to_row_[slot];
    if (row < 0) {
      row = static_cast<int32_t>(slots_.size());
      slots_.push_back(slot);
    }
    return row;
  }

 private:
  std::vector<int32_t> slot_to_row_;
  std::vector<int32_t>& slots_;
};

DistributionReads PlanDistributions(const TreePlan& plan, TokenScope scope, RowTable* table) {
  TokenReads reads = CollectTokenReads(plan, scope, FirstTokens::kLeaveOut);
  DistributionReads result;
  std::vector<int32_t> slot_to_distribution(plan.grid.token_ids.size(), -1);
  std::vector<int32_t> read_to_distribution;
  read_to_distribution.reserve(reads.slots.size());
  for (const int32_t source : reads.source_slots) {
    int32_t& distribution = slot_to_distribution[source];
    if (distribution < 0) {
      distribution = static_cast<int32_t>(result.rows.size());
      result.rows.push_back(table->RowOf(source));
    }
    read_to_distribution.push_back(distribution);
  }

  // Sorts the targets by their distributions with a counting sort.
  result.target_offsets.assign(result.rows.size() + 1, 0);
  for (const int32_t distribution : read_to_distribution) {
    ++result.target_offsets[static_cast<size_t>(distribution) + 1];
  }
  std::partial_sum(result.target_offsets.begin(), result.target_offsets.end(),
                   result.target_offsets.begin());
  std::vector<int64_t> next(result.target_offsets.begin(), result.target_offsets.end() - 1);
  result.targets.resize(reads.slots.size());
  std::vector<int32_t> read_to_target(reads.slots.size());
  for (size_t read = 0; read < reads.slots.size(); ++read) {
    const int64_t target = next[read_to_distribution[read]]++;
    result.targets[static_cast<size_t>(target)] = plan.grid.token_ids[reads.slots[read]];
    read_to_target[read] = static_cast<int32_t>(target);
  }

  result.entry_distribution.reserve(reads.path_reads.size());
  result.entry_target.reserve(reads.path_reads.size());
  for (const int32_t read : reads.path_reads) {
    result.entry_distribution.push_back(read_to_distribution[read]);
    result.entry_target.push_back(read_to_target[read]);
  }
  result.entries = std::move(reads.entries);
  return result;
}

ValueReads PlanValues(const TreePlan& plan, TokenScope scope, RowTable* table) {
  TokenReads reads = CollectTokenReads(plan, scope, FirstTokens::kInclude);
  ValueReads result;
  result.rows.reserve(reads.slots.size());
  for (const int32_t slot : reads.slots) {
    result.rows.push_back(table->RowOf(slot));
  }
  result.entries = std::move(reads.entries);
  result.entry_token = std::move(reads.path_reads);
  return result;
}

}  // namespace

OutputRows PlanOutputRows(const TreePlan& plan, const TokenReadOptions& options) {
  OutputRows rows;
  if (!options.distributions && !options.values) {
    rows.slots = plan.endpoints;
    return rows;
  }
  RowTable table(plan, &rows.slots);
  if (options.distributions) {
    rows.distributions = PlanDistributions(plan, options.scope, &table);
  }
  if (options.values) {
    rows.values = PlanValues(plan, options.scope, &table);
  }
  return rows;
}

}  // namespace canopy
