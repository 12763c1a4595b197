// The input of planning: the token paths of a batch of questions. Tokens are stored as the client
// sent them, without expanding prefixes.
//
// A question has a prefix, and one suffix for each candidate. A candidate's path is prefix +
// suffix. Prefixes are stored once and never copied in front of their suffixes.
//
//   question 0: prefix [7 8], suffixes [1], [2 3]      tokens         7 8 1 2 3 9
//   question 1: prefix [],    suffixes [9]             prefixes       {0,2} {5,0}
//   paths: 7 8 1 | 7 8 2 3 | 9                         suffixes       {2,1} {3,2} {5,1}
//                                                      question_offsets 0 2 3
#ifndef CORE_TREE_PATH_BATCH_H_
#define CORE_TREE_PATH_BATCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace canopy {

// A range of PathBatch::tokens.
struct TokenSpan {
  int64_t begin = 0;
  int32_t size = 0;
};

// Thread-compatible value.
struct PathBatch {
  std::vector<int32_t> tokens;
  std::vector<TokenSpan> prefixes;        // [questions]
  std::vector<TokenSpan> suffixes;        // [paths], grouped by question
  std::vector<int32_t> question_offsets;  // [questions + 1], into suffixes; starts with 0

  int32_t num_questions() const { return static_cast<int32_t>(prefixes.size()); }
  int32_t num_paths() const { return static_cast<int32_t>(suffixes.size()); }

  absl::Span<const int32_t> Tokens(const TokenSpan& span) const {
    return absl::MakeConstSpan(tokens).subspan(static_cast<size_t>(span.begin),
                                               static_cast<size_t>(span.size));
  }
  // Returns the length in tokens of path `path`, which belongs to question `question`.
  int64_t PathLength(int32_t question, int32_t path) const {
    return int64_t{prefixes[question].size} + suffixes[path].size;
  }

  // Returns the length in tokens of the longest path, or 0 if there are no paths.
  int64_t LongestPath() const;

  // Appends a question with its paths. Copies the tokens.
  void AddQuestion(absl::Span<const int32_t> prefix,
                   absl::Span<const std::vector<int32_t>> candidate_suffixes);
};

// Returns INVALID_ARGUMENT, naming the field, for a batch without questions, a question without
// paths, an empty path, a span outside `tokens`, or offsets that do not cover `suffixes` in order.
absl::Status ValidatePathBatch(const PathBatch& batch);

// The arrays of a right-padded path batch, as training code has them. Host, row-major.
struct PaddedPaths {
  absl::Span<const int32_t> input_ids;        // [num_paths, length]
  absl::Span<const uint8_t> attention_mask;   // [num_paths, length], 1 = a token, right padded
  absl::Span<const int32_t> candidate_end;    // [num_paths], index of the path's last token
  absl::Span<const int32_t> question_index;   // [num_paths], in 0 .. num_questions - 1
  absl::Span<const int32_t> candidate_index;  // [num_paths], the path's slot in its question
  absl::Span<const uint8_t> candidate_mask;   // [num_questions, max_candidates], 1 = a slot in use
  int32_t num_paths = 0;
  int32_t length = 0;
  int32_t num_questions = 0;
  int32_t max_candidates = 0;
};

// A padded batch as a PathBatch, and the slot of each path in [num_questions, max_candidates].
struct PaddedImport {
  PathBatch batch;                 // paths by question, then by slot
  std::vector<int32_t> path_slot;  // [paths], question * max_candidates + candidate slot
};

// Returns INVALID_ARGUMENT, naming the row, if a row is not right padded, an end position is not
// its last token, an index is out of range, a slot is taken twice, or the mask disagrees with the
// slots.
absl::StatusOr<PaddedImport> ImportPaddedPaths(const PaddedPaths& padded);

}  // namespace canopy

#endif  // CORE_TREE_PATH_BATCH_H_
