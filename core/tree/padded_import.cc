#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "core/tree/path_batch.h"

namespace canopy {
namespace {

constexpr int32_t kEmptySlot = -1;

absl::Status CheckSize(const char* name, size_t size, int64_t rows, int64_t columns) {
  if (static_cast<int64_t>(size) != rows * columns) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", size, " elements, expected ", rows, " x ", columns));
  }
  return absl::OkStatus();
}

absl::Status CheckShapes(const PaddedPaths& padded) {
  if (padded.num_paths < 1 || padded.length < 1 || padded.num_questions < 1 ||
      padded.max_candidates < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("padded batch of ", padded.num_paths, " paths x ", padded.length,
                     " tokens for ", padded.num_questions, " questions x ", padded.max_candidates,
                     " candidates: every size must be at least 1"));
  }
  const int32_t paths = padded.num_paths;
  CANOPY_RETURN_IF_ERROR(CheckSize("input_ids", padded.input_ids.size(), paths, padded.length));
  CANOPY_RETURN_IF_ERROR(
      CheckSize("attention_mask", padded.attention_mask.size(), paths, padded.length));
  CANOPY_RETURN_IF_ERROR(CheckSize("candidate_end", padded.candidate_end.size(), paths, 1));
  CANOPY_RETURN_IF_ERROR(CheckSize("question_index", padded.question_index.size(), paths, 1));
  CANOPY_RETURN_IF_ERROR(CheckSize("candidate_index", padded.candidate_index.size(), paths, 1));
  return CheckSize("candidate_mask", padded.candidate_mask.size(), padded.num_questions,
                   padded.max_candidates);
}

// Checks that the row has tokens up to its end position and padding after it.
absl::Status CheckRow(const PaddedPaths& padded, int32_t row) {
  const int32_t end = padded.candidate_end[row];
  if (end < 0 || end >= padded.length) {
    return absl::InvalidArgumentError(absl::StrCat("row ", row, ": end position ", end,
                                                   " lies outside 0 .. ", padded.length - 1));
  }
  const auto mask = padded.attention_mask.subspan(static_cast<size_t>(row) * padded.length,
                                                  static_cast<size_t>(padded.length));
  for (int32_t column = 0; column < padded.length; ++column) {
    const int expected = column <= end ? 1 : 0;
    if (mask[column] != expected) {
      return absl::InvalidArgumentError(absl::StrCat("row ", row, ": attention_mask[", column,
                                                     "] is ", mask[column], ", expected ", expected,
                                                     ": a row is right padded and ends at ", end));
    }
  }
  return absl::OkStatus();
}

// Returns the row in each slot of [num_questions, max_candidates].
absl::StatusOr<std::vector<int32_t>> SlotRows(const PaddedPaths& padded) {
  std::vector<int32_t> slot_row(padded.candidate_mask.size(), kEmptySlot);
  for (int32_t row = 0; row < padded.num_paths; ++row) {
    const int32_t question = padded.question_index[row];
    const int32_t candidate = padded.candidate_index[row];
    if (question < 0 || question >= padded.num_questions || candidate < 0 ||
        candidate >= padded.max_candidates) {
      return absl::InvalidArgumentError(absl::StrCat(
          "row ", row, ": question ", question, ", candidate ", candidate, " lies outside ",
          padded.num_questions, " questions x ", padded.max_candidates, " candidates"));
    }
    int32_t& taken_by = slot_row[int64_t{question} * padded.max_candidates + candidate];
    if (taken_by != kEmptySlot) {
      return absl::InvalidArgumentError(absl::StrCat("row ", row, ": question ", question,
                                                     ", candidate ", candidate, " is taken by row ",
                                                     taken_by));
    }
    taken_by = row;
  }
  return slot_row;
}

absl::Status CheckCandidateMask(const PaddedPaths& padded, absl::Span<const int32_t> slot_row) {
  for (size_t slot = 0; slot < slot_row.size(); ++slot) {
    const int expected = slot_row[slot] == kEmptySlot ? 0 : 1;
    if (padded.candidate_mask[slot] != expected) {
      return absl::InvalidArgumentError(absl::StrCat(
          "candidate_mask[", slot / padded.max_candidates, ", ", slot % padded.max_candidates,
          "] is ", padded.candidate_mask[slot], ", expected ", expected, ": ",
          expected == 1 ? absl::StrCat("row ", slot_row[slot], " stands there")
                        : "no row stands there"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PaddedImport> ImportPaddedPaths(const PaddedPaths& padded) {
  CANOPY_RETURN_IF_ERROR(CheckShapes(padded));
  for (int32_t row = 0; row < padded.num_paths; ++row) {
    CANOPY_RETURN_IF_ERROR(CheckRow(padded, row));
  }
  CANOPY_ASSIGN_OR_RETURN(const std::vector<int32_t> slot_row, SlotRows(padded));
  CANOPY_RETURN_IF_ERROR(CheckCandidateMask(padded, slot_row));

  PaddedImport imported;
  PathBatch& batch = imported.batch;
  batch.question_offsets.push_back(0);
  for (int32_t slot = 0; slot < static_cast<int32_t>(slot_row.size()); ++slot) {
    if (const int32_t row = slot_row[slot]; row != kEmptySlot) {
      const int32_t size = padded.candidate_end[row] + 1;
      const auto tokens = padded.input_ids.subspan(static_cast<size_t>(row) * padded.length,
                                                   static_cast<size_t>(size));
      batch.suffixes.push_back({static_cast<int64_t>(batch.tokens.size()), size});
      batch.tokens.insert(batch.tokens.end(), tokens.begin(), tokens.end());
      imported.path_slot.push_back(slot);
    }
    if ((slot + 1) % padded.max_candidates == 0) {
      batch.prefixes.emplace_back();
      batch.question_offsets.push_back(batch.num_paths());
    }
  }
  CANOPY_RETURN_IF_ERROR(ValidatePathBatch(batch));
  return imported;
}

}  // namespace canopy
