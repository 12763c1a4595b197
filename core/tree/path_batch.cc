#include "core/tree/path_batch.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace canopy {
namespace {

std::string CandidateName(int32_t question, int32_t candidate) {
  return absl::StrCat("questions[", question, "].candidates[", candidate, "]");
}

bool Inside(const TokenSpan& span, size_t num_tokens) {
  const auto size = static_cast<int64_t>(num_tokens);
  return span.begin >= 0 && span.size >= 0 && span.size <= size && span.begin <= size - span.size;
}

std::string OutsideMessage(const TokenSpan& span, size_t num_tokens) {
  return absl::StrCat("span of ", span.size, " tokens at ", span.begin, " lies outside the ",
                      num_tokens, " tokens of the batch");
}

absl::Status ValidateOffsets(const PathBatch& batch) {
  const std::vector<int32_t>& offsets = batch.question_offsets;
  if (offsets.size() != batch.prefixes.size() + 1 || offsets.front() != 0 ||
      offsets.back() != static_cast<int64_t>(batch.suffixes.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "question_offsets: ", offsets.size(), " offsets do not cover ", batch.suffixes.size(),
        " suffixes of ", batch.prefixes.size(), " questions from 0"));
  }
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    if (offsets[question] >= offsets[question + 1]) {
      return absl::InvalidArgumentError(
          absl::StrCat("questions[", question, "].candidates: at least one is needed"));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateQuestion(const PathBatch& batch, int32_t question) {
  const TokenSpan& prefix = batch.prefixes[question];
  if (!Inside(prefix, batch.tokens.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "questions[", question, "].prefix: ", OutsideMessage(prefix, batch.tokens.size())));
  }
  const int32_t first_path = batch.question_offsets[question];
  for (int32_t path = first_path; path < batch.question_offsets[question + 1]; ++path) {
    const TokenSpan& suffix = batch.suffixes[path];
    if (!Inside(suffix, batch.tokens.size())) {
      return absl::InvalidArgumentError(
          absl::StrCat(CandidateName(question, path - first_path),
                       ".tokens: ", OutsideMessage(suffix, batch.tokens.size())));
    }
    if (prefix.size == 0 && suffix.size == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(CandidateName(question, path - first_path), ".tokens: the path is empty"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

int64_t PathBatch::LongestPath() const {
  int64_t longest = 0;
  for (int32_t question = 0; question < num_questions(); ++question) {
    for (int32_t path = question_offsets[question]; path < question_offsets[question + 1]; ++path) {
      longest = std::max(longest, PathLength(question, path));
    }
  }
  return longest;
}

void PathBatch::AddQuestion(absl::Span<const int32_t> prefix,
                            absl::Span<const std::vector<int32_t>> candidate_suffixes) {
  const auto append = [this](absl::Span<const int32_t> added) {
    const TokenSpan span{static_cast<int64_t>(tokens.size()), static_cast<int32_t>(added.size())};
    tokens.insert(tokens.end(), added.begin(), added.end());
    return span;
  };
  if (question_offsets.empty()) {
    question_offsets.push_back(0);
  }
  prefixes.push_back(append(prefix));
  for (const std::vector<int32_t>& suffix : candidate_suffixes) {
    suffixes.push_back(append(suffix));
  }
  question_offsets.push_back(num_paths());
}

absl::Status ValidatePathBatch(const PathBatch& batch) {
  if (batch.prefixes.empty()) {
    return absl::InvalidArgumentError("questions: at least one is needed");
  }
  CANOPY_RETURN_IF_ERROR(ValidateOffsets(batch));
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    CANOPY_RETURN_IF_ERROR(ValidateQuestion(batch, question));
  }
  return absl::OkStatus();
}

}  // namespace canopy
