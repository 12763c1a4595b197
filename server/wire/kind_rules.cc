#include "server/wire/kind_rules.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace canopy::server {
namespace {

std::optional<Violation> CountViolation(int32_t kind, int32_t num_candidates) {
  const bool is_boolean = kind == v1::QUESTION_KIND_BOOLEAN;
  const bool is_score = kind == v1::QUESTION_KIND_SCORE;
  const int32_t least = is_boolean ? 2 : is_score ? kMinLevels : 1;
  const int32_t most = is_boolean ? 2 : is_score ? kMaxLevels : kMaxKindCandidates;
  if (num_candidates >= least && num_candidates <= most) {
    return std::nullopt;
  }
  return Violation{
      ".candidates",
      is_boolean ? absl::StrCat(num_candidates, " candidates; a boolean question has exactly 2")
      : is_score ? absl::StrCat(num_candidates, " candidates; a score question has ", kMinLevels,
                                " to ", kMaxLevels, " levels")
                 : absl::StrCat(num_candidates, " candidates exceed the ", kMaxKindCandidates,
                                " of a choice question")};
}

}  // namespace

QuestionKind ToQuestionKind(int32_t kind) {
  switch (kind) {
    case v1::QUESTION_KIND_BOOLEAN:
      return QuestionKind::kBoolean;
    case v1::QUESTION_KIND_CHOICE:
      return QuestionKind::kChoice;
    case v1::QUESTION_KIND_SCORE:
      return QuestionKind::kScore;
    default:
      return QuestionKind::kPlain;
  }
}

std::optional<Violation> FindKindViolation(int32_t kind, const PathBatch& batch, int32_t question) {
  if (ToQuestionKind(kind) == QuestionKind::kPlain) {
    return std::nullopt;
  }
  const int32_t begin = batch.question_offsets[question];
  const int32_t num_candidates = batch.question_offsets[question + 1] - begin;
  if (auto violation = CountViolation(kind, num_candidates); violation.has_value()) {
    return violation;
  }
  absl::flat_hash_map<absl::Span<const int32_t>, int32_t> seen;
  for (int32_t candidate = 0; candidate < num_candidates; ++candidate) {
    const auto [first, is_new] =
        seen.try_emplace(batch.Tokens(batch.suffixes[begin + candidate]), candidate);
    if (!is_new) {
      return Violation{absl::StrCat(".candidates[", candidate, "].tokens"),
                       absl::StrCat("equal to those of candidate ", first->second,
                                    "; the candidates of a question with a kind are distinct")};
    }
  }
  return std::nullopt;
}

}  // namespace canopy::server
