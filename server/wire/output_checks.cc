#include "server/wire/output_checks.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/checked_math.h"
#include "base/enum_table.h"
#include "core/tree/outputs.h"
#include "core/tree/token_reads.h"
#include "server/wire/violations.h"

namespace canopy::server {
namespace {

// The bytes that a list of top log-probs takes in addition to its numbers.
constexpr int64_t kTopLogprobsBytes = 64;

// The bytes that one output adds to an answer.
struct OutputBytes {
  absl::string_view name;
  int64_t bytes;
};

// Returns the bytes of the vectors and per-token lists.
std::vector<OutputBytes> BytesByOutput(const OutputSelection& outputs, const ModelInfo& model,
                                       const PathBatch& batch) {
  // Each count is computed once, for all outputs of its unit.
  std::optional<int64_t> scored_tokens;
  std::optional<int64_t> tokens;
  const auto count = [&](FirstTokens first, std::optional<int64_t>* entries) {
    if (!entries->has_value()) {
      *entries = ListTokenEntries(batch, outputs.scope, first).size();
    }
    return **entries;
  };
  const auto num_entries = [&](OutputUnit unit) -> int64_t {
    switch (unit) {
      case OutputUnit::kCandidate:
        return batch.num_paths();
      case OutputUnit::kScoredToken:
        return count(FirstTokens::kLeaveOut, &scored_tokens);
      case OutputUnit::kToken:
        return count(FirstTokens::kInclude, &tokens);
    }
    return 0;
  };
  std::vector<OutputBytes> bytes;
  for (const OutputSpec& spec : kOutputs) {
    const bool is_counted = spec.unit != OutputUnit::kCandidate || spec.output == Output::kVectors;
    if (is_counted && AmountOf(outputs, spec.output) != 0) {
      const int64_t list_bytes = spec.count != nullptr ? kTopLogprobsBytes : 0;
      bytes.push_back(
          {spec.name, SaturatingMultiply(num_entries(spec.unit),
                                         list_bytes + EntryBytes(model, outputs, spec.output))});
    }
  }
  return bytes;
}

// Returns the name of a head for error texts.
absl::string_view HeadText(OutputHead head) {
  switch (head) {
    case OutputHead::kNone:
      return "";
    case OutputHead::kScoring:
      return "scoring head";
    case OutputHead::kOneScore:
      return "head of one score";
    case OutputHead::kLanguageModel:
      return "language-model head";
    case OutputHead::kValue:
      return "head of one label for every token";
  }
  return "";
}

std::string FieldName(absl::string_view output) { return absl::StrCat("outputs.", output); }

}  // namespace

std::vector<std::string> HeadNames(const ModelInfo& model) {
  std::vector<std::string> names = {"vectors"};
  if (model.num_labels > 0) {
    names.emplace_back(NameOf(kScoreHeads, model.score_head));
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
  Violations violations;
  for (const OutputSpec& spec : kOutputs) {
    if (outputs.asks(spec.output) && !HasHead(model, spec.head)) {
      const bool is_explained =
          spec.head == OutputHead::kLanguageModel && !model.lm_head_reason.empty();
      violations.Add(FieldName(spec.name),
                     absl::StrCat("model ", model.name, " has no ", HeadText(spec.head),
                                  is_explained ? absl::StrCat(" (", model.lm_head_reason, ")") : "",
                                  "; it has: ", absl::StrJoin(HeadNames(model), ", ")));
    }
  }
  return violations.ToStatus();
}

std::vector<std::string> OutputNames(const OutputSelection& outputs) {
  std::vector<std::string> names;
  for (const OutputSpec& spec : kOutputs) {
    if (AmountOf(outputs, spec.output) != 0) {
      names.emplace_back(spec.name);
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
    violations.Add(FieldName(largest->name),
                   absl::StrCat(total, " bytes of vectors and per-token lists exceed the ",
                                kMaxAnswerBytes, " of one answer"));
  }
  return violations.ToStatus();
}

}  // namespace canopy::server
