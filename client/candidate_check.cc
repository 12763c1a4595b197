#include "client/candidate_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "client/mismatch.h"
#include "client/output_fields.h"
#include "client/token_ids.h"
#include "client/unscored.h"

namespace canopy::client {
namespace {

// The tokens of a path that the per-token lists cover (contract.md, Rules).
struct TokenRange {
  uint64_t first_scored = 0;  // index of the first token with a distribution
  uint64_t num_scored = 0;
  uint64_t num_values = 0;
};

TokenRange RangeOf(const v1::Question& question, const v1::Candidate& candidate, v1::Scope scope) {
  const uint64_t num_path_tokens = NumPathTokens(question, candidate);
  const uint64_t first_value = scope == v1::SCOPE_PATH ? 0 : NumTokens(question.prefix());
  TokenRange range;
  range.first_scored = first_value == 0 ? 1 : first_value;
  range.num_scored =
      num_path_tokens < range.first_scored ? 0 : num_path_tokens - range.first_scored;
  range.num_values = num_path_tokens - first_value;
  return range;
}

absl::Status CheckTopLogprobs(const v1::CandidateResult& result, uint32_t most, uint64_t expected) {
  if (most == 0) {
    return absl::OkStatus();
  }
  absl::Status status = CheckCount(".top_logprobs", result.top_logprobs_size(), expected);
  for (int i = 0; status.ok() && i < result.top_logprobs_size(); ++i) {
    const v1::TopLogprobs& top = result.top_logprobs(i);
    if (top.ids().empty() || static_cast<uint32_t>(top.ids_size()) > most) {
      status = Mismatch(": ", top.ids_size(), " tokens instead of 1 to ", most);
    } else {
      status = FirstError({CheckCount(".logprobs", top.logprobs_size(), top.ids_size()),
                           CheckFinite(".logprobs", top.logprobs())});
    }
    status = At(".top_logprobs", i, status);
  }
  return status;
}

// Integers count from 1, so 0 is wrong.
absl::Status CheckNumbers(const v1::CandidateResult& result, const Field& list) {
  if (IsFloat(list)) {
    return CheckFinite("", FloatsOf(result, list));
  }
  for (const uint32_t number : IntegersOf(result, list)) {
    if (number == 0) {
      return Mismatch(": 0 without a reason");
    }
  }
  return absl::OkStatus();
}

// Checks that a list has `expected` elements if it was requested, and that its numbers are valid.
absl::Status CheckList(const v1::CandidateResult& result, const Field& list, bool asked,
                       uint64_t expected) {
  const uint64_t size = SizeOf(result, list);
  const absl::Status status =
      asked && size != expected ? CheckCount("", size, expected) : CheckNumbers(result, list);
  return status.ok() ? status : Mismatch(".", list.name(), status.message());
}

absl::Status CheckPerToken(const v1::Outputs& outputs, const TokenRange& range,
                           const v1::CandidateResult& result) {
  const auto& lists = TokenLists();
  const bool has_distributions =
      std::any_of(lists.begin(), lists.end(), [&outputs](const ResultField& list) {
        return list.start == ListStart::kFirstScored && Asks(outputs, *list.output);
      });
  if (has_distributions && range.num_scored > 0 &&
      result.first_scored_token() != range.first_scored) {
    return CheckCount(".first_scored_token", result.first_scored_token(), range.first_scored);
  }
  if (outputs.token_logprobs() && range.num_scored > 0 && !result.has_sum_logprob()) {
    return Mismatch(".sum_logprob is missing");
  }
  for (const ResultField& list : lists) {
    const uint64_t expected = list.start == ListStart::kScope ? range.num_values : range.num_scored;
    absl::Status status =
        IsFloat(*list.field) || IsInteger(*list.field)
            ? CheckList(result, *list.field, Asks(outputs, *list.output), expected)
            : CheckTopLogprobs(result, outputs.top_logprobs(), expected);
    if (!status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckUnscored(const v1::CandidateResult& result) {
  if (result.has_score() || result.has_probability() || !result.label_scores().empty()) {
    return Mismatch(" is unscored and has a score");
  }
  return absl::OkStatus();
}

// Checks that the outputs that unscored_outputs names are absent, and that there is a reason.
absl::Status CheckNames(const v1::CandidateResult& result) {
  if (result.unscored_reason().empty()) {
    return result.unscored_outputs().empty() ? absl::OkStatus()
                                             : Mismatch(".unscored_reason is missing");
  }
  for (const ResultField& field : ResultFields()) {
    if (Lacks(result, field.output->name()) && Has(result, *field.field)) {
      return Mismatch(".unscored_outputs names ", field.output->name(), ", which is there");
    }
  }
  return absl::OkStatus();
}

// Returns the outputs that `result` must contain.
v1::Outputs WithoutUnscored(v1::Outputs outputs, const v1::CandidateResult& result) {
  for (const Field* output : OutputFields()) {
    if (Lacks(result, output->name())) {
      v1::Outputs::GetReflection()->ClearField(&outputs, output);
    }
  }
  return outputs;
}

}  // namespace

absl::Status CheckFinite(absl::string_view place, absl::Span<const float> values) {
  for (const float value : values) {
    if (!std::isfinite(value)) {
      return Mismatch(place, ": ", value, " without a reason");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCandidate(const v1::Question& question, const v1::Candidate& candidate,
                            const v1::Outputs& outputs, const v1::CandidateResult& result) {
  if (result.id() != candidate.id()) {
    return Mismatch(".id is not the candidate's");
  }
  const uint64_t num_path_tokens = NumPathTokens(question, candidate);
  if (result.tokens() != num_path_tokens) {
    return CheckCount(".tokens", result.tokens(), num_path_tokens);
  }
  if (LacksEverything(result)) {
    return CheckUnscored(result);
  }
  const v1::Outputs expected = WithoutUnscored(outputs, result);
  if (expected.scores() && !result.has_score() && result.label_scores().empty()) {
    return Mismatch(" has neither a score nor a reason");
  }
  return FirstError(
      {CheckNames(result), CheckFinite(".score", {result.score()}),
       CheckFinite(".probability", {result.probability()}),
       CheckFinite(".sum_logprob", {result.sum_logprob()}),
       CheckFinite(".label_scores", result.label_scores()),
       CheckPerToken(expected, RangeOf(question, candidate, outputs.scope()), result)});
}

}  // namespace canopy::client
