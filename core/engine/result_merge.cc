#include "core/engine/result_merge.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/tree/token_reads.h"

namespace canopy {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int32_t kNoToken = -1;

void ReserveTokens(const ScoreJob& job, TokenOutputs& tokens) {
  const OutputSelection& outputs = job.outputs;
  tokens.entries = ListTokenEntries(*job.batch, outputs.scope, FirstTokens::kLeaveOut);
  const auto size = static_cast<size_t>(tokens.entries.size());
  const size_t num_top = size * static_cast<size_t>(outputs.top_logprobs);
  tokens.logprobs.assign(outputs.token_logprobs ? size : 0, kNan);
  tokens.entropy.assign(outputs.entropy ? size : 0, kNan);
  tokens.min_logit.assign(outputs.vocab_range ? size : 0, kNan);
  tokens.max_logit.assign(outputs.vocab_range ? size : 0, kNan);
  tokens.top_ids.assign(num_top, kNoToken);
  tokens.top_logprobs.assign(num_top, kNan);
}

// The rows of a part that belong to one request.
struct RequestRows {
  size_t first_row = 0;
  const std::vector<int32_t>& request_paths;
};

// Copies per-token lists of a part's paths into those of the request.
class EntryMerge {
 public:
  EntryMerge(const TokenEntries& part, const TokenEntries& whole, const RequestRows& rows)
      : part_(part),
        whole_(whole),
        first_row_(rows.first_row),
        request_paths_(rows.request_paths) {}

  // Whether each path has as many entries in the part as in the request.
  absl::Status Check() const {
    if (whole_.offsets.empty()) {
      return absl::OkStatus();
    }
    if (part_.offsets.size() < first_row_ + request_paths_.size() + 1) {
      return absl::InternalError(absl::StrCat("per-token lists of ", part_.offsets.size(),
                                              " offsets for ", request_paths_.size(), " paths"));
    }
    for (size_t row = 0; row < request_paths_.size(); ++row) {
      if (CountOf(part_, first_row_ + row) !=
          CountOf(whole_, static_cast<size_t>(request_paths_[row]))) {
        return absl::InternalError(
            absl::StrCat("path ", request_paths_[row], " has ", CountOf(part_, first_row_ + row),
                         " per-token entries instead of ",
                         CountOf(whole_, static_cast<size_t>(request_paths_[row]))));
      }
    }
    return absl::OkStatus();
  }

  // `to` has the same number of elements for each entry, none where the list was not asked for.
  template <typename T>
  absl::Status Copy(const std::vector<T>& from, std::vector<T>& to) const {
    if (to.empty()) {
      return absl::OkStatus();
    }
    const auto width = static_cast<int64_t>(to.size()) / whole_.size();
    if (static_cast<int64_t>(from.size()) != part_.size() * width) {
      return absl::InternalError(absl::StrCat("a per-token list of ", from.size(),
                                              " elements instead of ", part_.size() * width));
    }
    for (size_t row = 0; row < request_paths_.size(); ++row) {
      const int64_t target = whole_.offsets[static_cast<size_t>(request_paths_[row])];
      const size_t part_row = first_row_ + row;
      std::copy_n(from.begin() + part_.offsets[part_row] * width, CountOf(part_, part_row) * width,
                  to.begin() + target * width);
    }
    return absl::OkStatus();
  }

 private:
  static int64_t CountOf(const TokenEntries& entries, size_t path) {
    return entries.offsets[path + 1] - entries.offsets[path];
  }

  const TokenEntries& part_;
  const TokenEntries& whole_;
  const size_t first_row_;
  const std::vector<int32_t>& request_paths_;
};

absl::Status MergeTokens(const TokenOutputs& part, const RequestRows& rows, TokenOutputs& whole) {
  const EntryMerge merge(part.entries, whole.entries, rows);
  CANOPY_RETURN_IF_ERROR(merge.Check());
  CANOPY_RETURN_IF_ERROR(merge.Copy(part.logprobs, whole.logprobs));
  CANOPY_RETURN_IF_ERROR(merge.Copy(part.entropy, whole.entropy));
  CANOPY_RETURN_IF_ERROR(merge.Copy(part.min_logit, whole.min_logit));
  CANOPY_RETURN_IF_ERROR(merge.Copy(part.max_logit, whole.max_logit));
  CANOPY_RETURN_IF_ERROR(merge.Copy(part.top_ids, whole.top_ids));
  return merge.Copy(part.top_logprobs, whole.top_logprobs);
}

absl::Status MergeValues(const ValueOutputs& part, const RequestRows& rows, ValueOutputs& whole) {
  const EntryMerge merge(part.entries, whole.entries, rows);
  CANOPY_RETURN_IF_ERROR(merge.Check());
  return merge.Copy(part.values, whole.values);
}

// Fills the entries of one path in a list that has as many elements for each entry.
template <typename T>
void BlankEntries(const TokenEntries& entries, size_t path, T blank, std::vector<T>& list) {
  if (!list.empty()) {
    const auto width = static_cast<int64_t>(list.size()) / entries.size();
    std::fill(list.begin() + entries.offsets[path] * width,
              list.begin() + entries.offsets[path + 1] * width, blank);
  }
}

void BlankTokens(size_t path, ScoreResult& result) {
  TokenOutputs& tokens = result.tokens;
  for (std::vector<float>* list : {&tokens.logprobs, &tokens.entropy, &tokens.min_logit,
                                   &tokens.max_logit, &tokens.top_logprobs}) {
    BlankEntries(tokens.entries, path, kNan, *list);
  }
  BlankEntries(tokens.entries, path, kNoToken, tokens.top_ids);
  BlankEntries(result.values.entries, path, kNan, result.values.values);
}

}  // namespace

void ReserveResults(const ScoreJob& job, ScoreResult& result) {
  const ModelInfo& model = *result.model;
  const size_t num_paths = job.batch->suffixes.size();
  result.finite.assign(num_paths, 0);
  if (job.outputs.scores) {
    result.scores.assign(num_paths * static_cast<size_t>(model.num_labels), kNan);
  }
  if (job.outputs.vectors) {
    result.vectors.assign(num_paths * static_cast<size_t>(model.hidden_size) *
                              static_cast<size_t>(VectorTypeBytes(job.outputs.vector_type)),
                          '\0');
  }
  if (job.outputs.endpoints) {
    result.endpoints.assign(num_paths * static_cast<size_t>(model.hidden_size), 0);
  }
  if (job.outputs.distributions()) {
    ReserveTokens(job, result.tokens);
  }
  if (job.outputs.values) {
    result.values.entries = ListTokenEntries(*job.batch, job.outputs.scope, FirstTokens::kInclude);
    result.values.values.assign(static_cast<size_t>(result.values.entries.size()), kNan);
  }
}

absl::Status MergePart(const PartOutput& part, int32_t first_row,
                       const std::vector<int32_t>& request_paths, ScoreResult& result) {
  const RequestRows rows{static_cast<size_t>(first_row), request_paths};
  const size_t part_rows = part.finite.size();
  if (part_rows < rows.first_row + request_paths.size()) {
    return absl::InternalError(absl::StrCat("results of ", part_rows, " paths instead of ",
                                            rows.first_row + request_paths.size()));
  }
  const size_t num_labels = part.scores.size() / part_rows;
  const size_t row_bytes = part.vectors.size() / part_rows;
  const size_t hidden = part.endpoints.size() / part_rows;
  for (size_t i = 0; i < request_paths.size(); ++i) {
    const size_t row = rows.first_row + i;
    const auto path = static_cast<size_t>(request_paths[i]);
    result.finite[path] = part.finite[row];
    std::copy_n(part.scores.begin() + static_cast<std::ptrdiff_t>(row * num_labels), num_labels,
                result.scores.begin() + static_cast<std::ptrdiff_t>(path * num_labels));
    std::copy_n(part.endpoints.begin() + static_cast<std::ptrdiff_t>(row * hidden), hidden,
                result.endpoints.begin() + static_cast<std::ptrdiff_t>(path * hidden));
    if (row_bytes > 0) {
      std::memcpy(&result.vectors[path * row_bytes], &part.vectors[row * row_bytes], row_bytes);
    }
  }
  CANOPY_RETURN_IF_ERROR(MergeTokens(part.tokens, rows, result.tokens));
  return MergeValues(part.values, rows, result.values);
}

void BlankUnscored(const OutputSelection& outputs, ScoreResult& result) {
  const ModelInfo& model = *result.model;
  const auto num_labels = static_cast<size_t>(outputs.scores ? model.num_labels : 0);
  const auto hidden = static_cast<size_t>(outputs.vectors ? model.hidden_size : 0);
  const auto width = static_cast<size_t>(VectorTypeBytes(outputs.vector_type));
  // A quiet NaN has its exponent and first mantissa bit set in all three types.
  const uint32_t bits = outputs.vector_type == VectorType::kFloat32    ? 0x7fc00000U
                        : outputs.vector_type == VectorType::kBFloat16 ? 0x7fc0U
                                                                       : 0x7e00U;
  for (size_t path = 0; path < result.finite.size(); ++path) {
    if (result.finite[path] != 0) {
      continue;
    }
    std::fill_n(result.scores.begin() + static_cast<std::ptrdiff_t>(path * num_labels), num_labels,
                kNan);
    for (size_t column = 0; column < hidden; ++column) {
      std::memcpy(&result.vectors[(path * hidden + column) * width], &bits, width);
    }
    BlankTokens(path, result);
  }
}

}  // namespace canopy
