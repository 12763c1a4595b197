#include "server/wire/output_checks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/checked_math.h"
#include "core/tree/token_reads.h"
#include "server/wire/violations.h"

namespace canopy::server {
namespace {

// What a list of top log-probs takes beside its numbers.
constexpr int64_t kTopLogprobsBytes = 64;

// What one output adds to an answer.
struct OutputBytes {
  const char* field;
  int64_t bytes;
};

int64_t ListBytes(bool asked, int64_t num_entries, int64_t entry_bytes) {
  return asked ? SaturatingMultiply(num_entries, entry_bytes) : 0;
}

std::vector<OutputBytes> BytesByOutput(const OutputSelection& outputs, const ModelInfo& model,
                                       const PathBatch& batch) {
  constexpr int64_t kNumberBytes = sizeof(float);
  const int64_t num_tokens =
      outputs.distributions()
          ? ListTokenEntries(batch, outputs.scope, FirstTokens::kLeaveOut).size()
          : 0;
  const int64_t num_values =
      outputs.values ? ListTokenEntries(batch, outputs.scope, FirstTokens::kInclude).size() : 0;
  const int64_t row_bytes =
      SaturatingMultiply(model.hidden_size, VectorTypeBytes(outputs.vector_type));
  return {
      {"outputs.vectors", ListBytes(outputs.vectors, batch.num_paths(), row_bytes)},
      {"outputs.token_logprobs", ListBytes(outputs.token_logprobs, num_tokens, kNumberBytes)},
      {"outputs.entropy", ListBytes(outputs.entropy, num_tokens, kNumberBytes)},
      {"outputs.vocab_range", ListBytes(outputs.vocab_range, num_tokens, 2 * kNumberBytes)},
      {"outputs.values", ListBytes(outputs.values, num_values, kNumberBytes)},
      {"outputs.top_logprobs",
       ListBytes(outputs.top_logprobs > 0, num_tokens,
                 kTopLogprobsBytes + 2 * kNumberBytes * outputs.top_logprobs)},
  };
}

absl::string_view ScoreHeadName(ScoreHead head) {
  switch (head) {
    case ScoreHead::kReward:
      return "reward";
    case ScoreHead::kDecision:
      return "decision";
    case ScoreHead::kReranker:
      return "reranker";
  }
  return "";
}

}  // namespace

std::vector<std::string> HeadNames(const ModelInfo& model) {
  std::vector<std::string> names = {"vectors"};
  if (model.num_labels > 0) {
    names.emplace_back(ScoreHeadName(model.score_head));
  }
  if (model.has_lm_head) {
    names.emplace_back("logprobs");
  }
  if (model.has_value_head) {
    names.emplace_back("values");
  }
  return names;
}

absl::Status CheckHeads(const OutputsFields& outputs, const ModelInfo& model) {
  constexpr absl::string_view kLanguageModel = "language-model head";
  Violations violations;
  const auto need = [&](const char* field, bool asked, bool has, absl::string_view head) {
    if (asked && !has) {
      const bool is_explained = head == kLanguageModel && !model.lm_head_reason.empty();
      violations.Add(field,
                     absl::StrCat("model ", model.name, " has no ", head,
                                  is_explained ? absl::StrCat(" (", model.lm_head_reason, ")") : "",
                                  "; it has: ", absl::StrJoin(HeadNames(model), ", ")));
    }
  };
  need("outputs.scores", outputs.scores, model.num_labels > 0, "scoring head");
  need("outputs.probabilities", outputs.probabilities, model.num_labels == 1, "head of one score");
  need("outputs.token_logprobs", outputs.token_logprobs, model.has_lm_head, kLanguageModel);
  need("outputs.entropy", outputs.entropy, model.has_lm_head, kLanguageModel);
  need("outputs.vocab_range", outputs.vocab_range, model.has_lm_head, kLanguageModel);
  need("outputs.values", outputs.values, model.has_value_head, "head of one label for every token");
  need("outputs.top_logprobs", outputs.top_logprobs > 0, model.has_lm_head, kLanguageModel);
  return violations.ToStatus();
}

std::vector<std::string> OutputNames(const OutputSelection& outputs) {
  std::vector<std::string> names;
  const std::pair<const char*, bool> fields[] = {
      {"vectors", outputs.vectors},
      {"scores", outputs.scores},
      {"token_logprobs", outputs.token_logprobs},
      {"entropy", outputs.entropy},
      {"vocab_range", outputs.vocab_range},
      {"values", outputs.values},
      {"top_logprobs", outputs.top_logprobs > 0},
  };
  for (const auto& [name, asked] : fields) {
    if (asked) {
      names.emplace_back(name);
    }
  }
  return names;
}

int64_t AnswerBytes(const OutputSelection& outputs, const ModelInfo& model,
                    const PathBatch& batch) {
  int64_t total = 0;
  for (const OutputBytes& output : BytesByOutput(outputs, model, batch)) {
    total = SaturatingAdd(total, output.bytes);
  }
  return total;
}

absl::Status CheckAnswerSize(const OutputSelection& outputs, const ModelInfo& model,
                             const PathBatch& batch) {
  const int64_t total = AnswerBytes(outputs, model, batch);
  Violations violations;
  if (total > kMaxAnswerBytes) {
    const std::vector<OutputBytes> parts = BytesByOutput(outputs, model, batch);
    const auto largest = std::max_element(
        parts.begin(), parts.end(),
        [](const OutputBytes& left, const OutputBytes& right) { return left.bytes < right.bytes; });
    violations.Add(largest->field,
                   absl::StrCat(total, " bytes of vectors and per-token lists exceed the ",
                                kMaxAnswerBytes, " of one answer"));
  }
  return violations.ToStatus();
}

}  // namespace canopy::server
