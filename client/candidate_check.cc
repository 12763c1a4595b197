#include "client/candidate_check.h"

#include <cmath>
#include <cstdint>

#include "client/mismatch.h"
#include "client/token_ids.h"
#include "client/unscored.h"

namespace canopy::client {
namespace {

// Which tokens of a path the per-token lists cover (contract.md, Rules).
struct TokenRange {
  uint64_t first_scored = 0;  // Index of the first token that has a distribution.
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

// A list that must be `expected` long when it was asked for, and finite either way.
absl::Status CheckList(absl::string_view place, absl::Span<const float> values, bool asked,
                       uint64_t expected) {
  if (asked && values.size() != expected) {
    return CheckCount(place, values.size(), expected);
  }
  return CheckFinite(place, values);
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
      status = CheckList(".logprobs", top.logprobs(), true, top.ids_size());
    }
    status = At(".top_logprobs", i, status);
  }
  return status;
}

absl::Status CheckPerToken(const v1::Outputs& outputs, const TokenRange& range,
                           const v1::CandidateResult& result) {
  const bool has_distributions = outputs.token_logprobs() || outputs.entropy() ||
                                 outputs.vocab_range() || outputs.top_logprobs() > 0;
  if (has_distributions && range.num_scored > 0 &&
      result.first_scored_token() != range.first_scored) {
    return CheckCount(".first_scored_token", result.first_scored_token(), range.first_scored);
  }
  if (outputs.token_logprobs() && range.num_scored > 0 && !result.has_sum_logprob()) {
    return Mismatch(".sum_logprob is missing");
  }
  const uint64_t n = range.num_scored;
  return FirstError(
      {CheckList(".token_logprobs", result.token_logprobs(), outputs.token_logprobs(), n),
       CheckList(".entropy", result.entropy(), outputs.entropy(), n),
       CheckList(".min_logit", result.min_logit(), outputs.vocab_range(), n),
       CheckList(".max_logit", result.max_logit(), outputs.vocab_range(), n),
       CheckList(".values", result.values(), outputs.values(), range.num_values),
       CheckTopLogprobs(result, outputs.top_logprobs(), n)});
}

absl::Status CheckUnscored(const v1::CandidateResult& result) {
  if (result.has_score() || result.has_probability() || !result.label_scores().empty()) {
    return Mismatch(" is unscored and has a score");
  }
  return absl::OkStatus();
}

// `has` = the result has the output of `field`.
absl::Status CheckAbsent(const v1::CandidateResult& result, const char* field, bool has) {
  return has && Lacks(result, field)
             ? Mismatch(".unscored_outputs names ", field, ", which is there")
             : absl::OkStatus();
}

// Checks that the outputs that unscored_outputs names are absent, and that there is a reason.
absl::Status CheckNames(const v1::CandidateResult& result) {
  if (result.unscored_reason().empty()) {
    return result.unscored_outputs().empty() ? absl::OkStatus()
                                             : Mismatch(".unscored_reason is missing");
  }
  return FirstError(
      {CheckAbsent(result, "scores", result.has_score() || !result.label_scores().empty()),
       CheckAbsent(result, "probabilities", result.has_probability()),
       CheckAbsent(result, "token_logprobs",
                   result.has_sum_logprob() || !result.token_logprobs().empty()),
       CheckAbsent(result, "entropy", !result.entropy().empty()),
       CheckAbsent(result, "vocab_range",
                   !result.min_logit().empty() || !result.max_logit().empty()),
       CheckAbsent(result, "values", !result.values().empty()),
       CheckAbsent(result, "top_logprobs", !result.top_logprobs().empty())});
}

// The outputs that `result` must have.
v1::Outputs WithoutUnscored(v1::Outputs outputs, const v1::CandidateResult& result) {
  const auto keep = [&result](bool asked, const char* field) {
    return asked && !Lacks(result, field);
  };
  outputs.set_scores(keep(outputs.scores(), "scores"));
  outputs.set_token_logprobs(keep(outputs.token_logprobs(), "token_logprobs"));
  outputs.set_entropy(keep(outputs.entropy(), "entropy"));
  outputs.set_vocab_range(keep(outputs.vocab_range(), "vocab_range"));
  outputs.set_values(keep(outputs.values(), "values"));
  if (Lacks(result, "top_logprobs")) {
    outputs.set_top_logprobs(0);
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
