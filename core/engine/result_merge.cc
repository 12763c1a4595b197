#include "core/engine/result_merge.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "core/tree/token_reads.h"

namespace canopy {
namespace {

// Allocates the requested lists; the other lists stay empty.
void ReserveLists(const OutputSelection& outputs, ScoreResult& result) {
  ForEachList([&](const auto& spec) {
    using Element = typename std::decay_t<decltype(spec)>::Element;
    const int64_t width = AmountOf(outputs, spec.output);
    spec.ListIn(result).assign(static_cast<size_t>(width * spec.EntriesIn(result).size()),
                               kUnscored<Element>);
  });
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

  // Returns an error unless each path has as many entries in the part as in the request.
  absl::Status Check() const {
    if (whole_.offsets.empty()) {
      return absl::OkStatus();
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

  // `to` has the same number of elements for each entry, and no elements if the list was not
  // requested.
  template <typename T>
  void Copy(const std::vector<T>& from, std::vector<T>& to) const {
    if (to.empty()) {
      return;
    }
    const auto width = static_cast<int64_t>(to.size()) / whole_.size();
    for (size_t row = 0; row < request_paths_.size(); ++row) {
      const int64_t target = whole_.offsets[static_cast<size_t>(request_paths_[row])];
      const size_t part_row = first_row_ + row;
      std::copy_n(from.begin() + part_.offsets[part_row] * width, CountOf(part_, part_row) * width,
                  to.begin() + target * width);
    }
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

absl::Status MergeLists(const PartOutput& part, const RequestRows& rows, ScoreResult& whole) {
  const EntryMerge tokens(part.tokens.entries, whole.tokens.entries, rows);
  const EntryMerge values(part.values.entries, whole.values.entries, rows);
  CANOPY_RETURN_IF_ERROR(tokens.Check());
  CANOPY_RETURN_IF_ERROR(values.Check());
  ForEachList([&](const auto& spec) {
    (spec.kOfDistributions ? tokens : values).Copy(spec.ListIn(part), spec.ListIn(whole));
  });
  return absl::OkStatus();
}

absl::Status CheckSize(const char* field, size_t actual, int64_t expected) {
  return static_cast<int64_t>(actual) == expected
             ? absl::OkStatus()
             : absl::InternalError(absl::StrCat("the runner's ", field, " has size ", actual,
                                                " instead of ", expected));
}

// Checks that the offsets increase from 0, so that no list is read out of bounds.
absl::Status CheckEntries(const char* field, const TokenEntries& entries, int64_t num_paths,
                          bool asked) {
  const std::vector<int64_t>& offsets = entries.offsets;
  CANOPY_RETURN_IF_ERROR(CheckSize(field, offsets.size(), asked ? num_paths + 1 : 0));
  if (!asked) {
    return absl::OkStatus();
  }
  if (offsets.front() != 0) {
    return absl::InternalError(
        absl::StrCat("the runner's ", field, " begins at ", offsets.front(), " instead of 0"));
  }
  const auto descent = std::is_sorted_until(offsets.begin(), offsets.end());
  if (descent != offsets.end()) {
    return absl::InternalError(
        absl::StrCat("the runner's ", field, " falls from ", *(descent - 1), " to ", *descent));
  }
  return absl::OkStatus();
}

absl::Status CheckLists(const PartOutput& part, int64_t num_paths, const OutputSelection& outputs) {
  CANOPY_RETURN_IF_ERROR(
      CheckEntries("tokens.entries", part.tokens.entries, num_paths, outputs.distributions()));
  CANOPY_RETURN_IF_ERROR(
      CheckEntries("values.entries", part.values.entries, num_paths, outputs.values));
  absl::Status status;
  ForEachList([&](const auto& spec) {
    const int64_t width = AmountOf(outputs, spec.output);
    status.Update(CheckSize(spec.name, spec.ListIn(part).size(),
                            width == 0 ? 0 : width * spec.EntriesIn(part).size()));
  });
  return status;
}

// Fills the entries of one path in a list that has the same number of elements for each entry.
template <typename T>
void BlankEntries(const TokenEntries& entries, size_t path, T blank, std::vector<T>& list) {
  if (!list.empty()) {
    const auto width = static_cast<int64_t>(list.size()) / entries.size();
    std::fill(list.begin() + entries.offsets[path] * width,
              list.begin() + entries.offsets[path + 1] * width, blank);
  }
}

void BlankLists(size_t path, ScoreResult& result) {
  ForEachList([&](const auto& spec) {
    using Element = typename std::decay_t<decltype(spec)>::Element;
    if ((result.unscored[path] & BitOf(spec.output)) != 0) {
      BlankEntries(spec.EntriesIn(result), path, kUnscored<Element>, spec.ListIn(result));
    }
  });
}

void BlankVector(size_t path, VectorType type, ScoreResult& result) {
  // A quiet NaN has its exponent and first mantissa bit set in all three types.
  const uint32_t bits = type == VectorType::kFloat32    ? 0x7fc00000U
                        : type == VectorType::kBFloat16 ? 0x7fc0U
                                                        : 0x7e00U;
  const auto hidden = static_cast<size_t>(result.model->hidden_size);
  const auto width = static_cast<size_t>(VectorTypeBytes(type));
  for (size_t column = 0; column < hidden; ++column) {
    std::memcpy(&result.vectors[(path * hidden + column) * width], &bits, width);
  }
}

}  // namespace

void ReserveResults(const ScoreJob& job, ScoreResult& result) {
  const ModelInfo& model = *result.model;
  const size_t num_paths = job.batch->suffixes.size();
  result.finite.assign(num_paths, 0);
  result.inner_finite.assign(num_paths, 1);
  result.unscored.assign(num_paths, 0);
  if (job.outputs.scores) {
    result.scores.assign(num_paths * static_cast<size_t>(model.num_labels), kUnscored<float>);
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
    result.tokens.entries = ListTokenEntries(*job.batch, job.outputs.scope, FirstTokens::kLeaveOut);
  }
  if (job.outputs.values) {
    result.values.entries = ListTokenEntries(*job.batch, job.outputs.scope, FirstTokens::kInclude);
  }
  ReserveLists(job.outputs, result);
}

absl::Status CheckPart(const PartOutput& part, int64_t num_paths, const OutputSelection& outputs,
                       const ModelInfo& model) {
  const int64_t row_bytes = model.hidden_size * VectorTypeBytes(outputs.vector_type);
  CANOPY_RETURN_IF_ERROR(CheckSize("finite", part.finite.size(), num_paths));
  if (!part.inner_finite.empty()) {
    CANOPY_RETURN_IF_ERROR(CheckSize("inner_finite", part.inner_finite.size(), num_paths));
  }
  if (!part.unscored.empty()) {
    CANOPY_RETURN_IF_ERROR(CheckSize("unscored", part.unscored.size(), num_paths));
  }
  CANOPY_RETURN_IF_ERROR(
      CheckSize("scores", part.scores.size(), outputs.scores ? num_paths * model.num_labels : 0));
  CANOPY_RETURN_IF_ERROR(
      CheckSize("vectors", part.vectors.size(), outputs.vectors ? num_paths * row_bytes : 0));
  CANOPY_RETURN_IF_ERROR(CheckSize("endpoints", part.endpoints.size(),
                                   outputs.endpoints ? num_paths * model.hidden_size : 0));
  return CheckLists(part, num_paths, outputs);
}

absl::Status MergePart(const PartOutput& part, int32_t first_row,
                       const std::vector<int32_t>& request_paths, ScoreResult& result) {
  const RequestRows rows{static_cast<size_t>(first_row), request_paths};
  const size_t part_rows = part.finite.size();
  if (part_rows < rows.first_row + request_paths.size()) {
    return absl::InternalError(absl::StrCat("a part of ", part_rows, " paths instead of ",
                                            rows.first_row + request_paths.size()));
  }
  const size_t num_labels = part.scores.size() / part_rows;
  const size_t row_bytes = part.vectors.size() / part_rows;
  const size_t hidden = part.endpoints.size() / part_rows;
  for (size_t i = 0; i < request_paths.size(); ++i) {
    const size_t row = rows.first_row + i;
    const auto path = static_cast<size_t>(request_paths[i]);
    result.finite[path] = part.finite[row];
    result.inner_finite[path] = part.inner_finite.empty() ? 1 : part.inner_finite[row];
    result.unscored[path] = part.unscored.empty() ? 0 : part.unscored[row];
    std::copy_n(part.scores.begin() + static_cast<std::ptrdiff_t>(row * num_labels), num_labels,
                result.scores.begin() + static_cast<std::ptrdiff_t>(path * num_labels));
    std::copy_n(part.endpoints.begin() + static_cast<std::ptrdiff_t>(row * hidden), hidden,
                result.endpoints.begin() + static_cast<std::ptrdiff_t>(path * hidden));
    if (row_bytes > 0) {
      std::memcpy(&result.vectors[path * row_bytes], &part.vectors[row * row_bytes], row_bytes);
    }
  }
  return MergeLists(part, rows, result);
}

void BlankUnscored(const OutputSelection& outputs, ScoreResult& result) {
  const ModelInfo& model = *result.model;
  const auto num_labels = static_cast<size_t>(model.num_labels);
  const OutputSet asked = AskedOutputs(outputs);
  result.inner_finite = {};
  for (size_t path = 0; path < result.finite.size(); ++path) {
    OutputSet& unscored = result.unscored[path];
    unscored = result.finite[path] != 0 ? unscored & asked : asked;
    if ((unscored & BitOf(Output::kScores)) != 0) {
      std::fill_n(result.scores.begin() + static_cast<std::ptrdiff_t>(path * num_labels),
                  num_labels, kUnscored<float>);
    }
    if ((unscored & BitOf(Output::kVectors)) != 0) {
      BlankVector(path, outputs.vector_type, result);
    }
    BlankLists(path, result);
  }
}

}  // namespace canopy
