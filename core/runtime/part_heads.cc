#include "core/runtime/part_heads.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ATen/ops/cat.h"
#include "ATen/ops/from_blob.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/ops/index_upload.h"
#include "core/scoring/vectors.h"

namespace canopy {
namespace {

at::ScalarType ScalarTypeOf(VectorType type) {
  switch (type) {
    case VectorType::kBFloat16:
      return at::kBFloat16;
    case VectorType::kFloat16:
      return at::kHalf;
    case VectorType::kFloat32:
      break;
  }
  return at::kFloat;
}

// Device tensors that are copied to the host together, and then taken in the order in which they
// were added.
class Download {
 public:
  // An undefined tensor has no elements.
  void Add(const at::Tensor& tensor) {
    if (tensor.defined()) {
      parts_.push_back(tensor.contiguous().view(-1).view(at::kByte));
    }
    sizes_.push_back(tensor.defined() ? parts_.back().numel() : 0);
  }

  void Copy() {
    bytes_ = CopyToHost(at::cat(parts_));
    parts_.clear();
  }

  // Container is a std::vector of numbers, or std::string.
  template <typename Container>
  void Take(Container* target) {
    const auto size = static_cast<size_t>(sizes_[next_++]);
    target->resize(size / sizeof(typename Container::value_type));
    std::memcpy(target->data(), bytes_.const_data_ptr<uint8_t>() + offset_, size);
    offset_ += size;
  }

 private:
  std::vector<at::Tensor> parts_;
  std::vector<int64_t> sizes_;
  at::Tensor bytes_;
  size_t next_ = 0;
  size_t offset_ = 0;
};

// Selects the elements at `index`, with `width` values each.
template <typename T>
std::vector<T> Expand(const std::vector<T>& elements, const std::vector<int32_t>& index,
                      size_t width) {
  std::vector<T> expanded(elements.empty() ? 0 : index.size() * width);
  for (size_t entry = 0; entry < index.size() && !elements.empty(); ++entry) {
    std::copy_n(elements.begin() + static_cast<std::ptrdiff_t>(index[entry] * width), width,
                expanded.begin() + static_cast<std::ptrdiff_t>(entry * width));
  }
  return expanded;
}

// Returns whether the values and their sum, which the answer contains as a float, are finite.
bool SumIsFinite(absl::Span<const float> values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return std::abs(sum) <= std::numeric_limits<float>::max();
}

// Adds `output` to the set of each path that has entries in `list` that fail `test`. The list has
// the same number of values for each entry.
template <typename T, typename Test>
void MarkList(const TokenEntries& entries, const std::vector<T>& list, Output output,
              const Test& test, std::vector<OutputSet>* unscored) {
  if (list.empty()) {
    return;
  }
  const size_t width = list.size() / static_cast<size_t>(entries.size());
  for (size_t path = 0; path < unscored->size(); ++path) {
    const auto begin = static_cast<size_t>(entries.offsets[path]);
    const auto end = static_cast<size_t>(entries.offsets[path + 1]);
    if (!test(absl::MakeConstSpan(list).subspan(begin * width, (end - begin) * width))) {
      (*unscored)[path] |= BitOf(output);
    }
  }
}

// The same for outputs with one row per path. `finite_rows` is empty if the output was not
// requested.
void MarkRows(const std::vector<uint8_t>& finite_rows, Output output,
              std::vector<OutputSet>* unscored) {
  for (size_t path = 0; path < finite_rows.size(); ++path) {
    (*unscored)[path] |= finite_rows[path] != 0 ? 0 : BitOf(output);
  }
}

void MarkLists(PartOutput* output) {
  ForEachList([output](const auto& spec) {
    using Element = typename std::decay_t<decltype(spec)>::Element;
    MarkList(
        spec.EntriesIn(*output), spec.ListIn(*output), spec.output,
        [](absl::Span<const Element> list) {
          return std::all_of(list.begin(), list.end(),
                             [](Element element) { return IsScored(element); });
        },
        &output->unscored);
  });
  MarkList(output->tokens.entries, output->tokens.logprobs, Output::kTokenLogprobs, SumIsFinite,
           &output->unscored);
}

// Clears `finite` for each path that reads a row of hidden states that is not finite. `index` maps
// entries to `rows`, and `rows` maps to rows of hidden states.
void ClearByRows(const TokenEntries& entries, const std::vector<int32_t>& index,
                 const std::vector<int32_t>& rows, const std::vector<uint8_t>& finite_rows,
                 std::vector<uint8_t>* finite) {
  for (size_t path = 0; path < finite->size(); ++path) {
    for (int64_t entry = entries.offsets[path]; entry < entries.offsets[path + 1]; ++entry) {
      (*finite)[path] &= finite_rows[rows[index[static_cast<size_t>(entry)]]];
    }
  }
}

// Returns PartOutput::inner_finite.
std::vector<uint8_t> InnerFinite(const PartHidden& part, const std::vector<uint8_t>& finite_rows) {
  if (std::find(finite_rows.begin(), finite_rows.end(), 0) == finite_rows.end()) {
    return {};
  }
  std::vector<uint8_t> finite(static_cast<size_t>(part.num_paths), 1);
  if (part.rows.distributions.has_value()) {
    const DistributionReads& reads = *part.rows.distributions;
    ClearByRows(reads.entries, reads.entry_distribution, reads.rows, finite_rows, &finite);
  }
  if (part.rows.values.has_value()) {
    const ValueReads& reads = *part.rows.values;
    ClearByRows(reads.entries, reads.entry_token, reads.rows, finite_rows, &finite);
  }
  return finite;
}

// Takes the list of each requested output, in the order of kLists, and distributes it to every path
// that reads the distribution or token.
void TakeLists(const OutputRows& rows, const OutputSelection& outputs, Download* download,
               PartOutput* output) {
  const auto index_of = [&rows](ListSource source) -> const std::vector<int32_t>& {
    switch (source) {
      case ListSource::kTarget:
        return rows.distributions->entry_target;
      case ListSource::kDistribution:
        return rows.distributions->entry_distribution;
      case ListSource::kToken:
        break;
    }
    return rows.values->entry_token;
  };
  ForEachList([&](const auto& spec) {
    const int32_t width = AmountOf(outputs, spec.output);
    if (width > 0) {
      std::vector<typename std::decay_t<decltype(spec)>::Element> elements;
      download->Take(&elements);
      spec.ListIn(*output) = Expand(elements, index_of(spec.source), static_cast<size_t>(width));
    }
  });
}

// Returns the reward head's value of each token, [tokens, 1].
at::Tensor TokenValues(const RewardHead& head, const at::Tensor& hidden, const ValueReads& reads) {
  // LibTorch has no read-only tensors; this tensor is only read.
  const at::Tensor rows =
      at::from_blob(const_cast<int32_t*>(reads.rows.data()),
                    {static_cast<int64_t>(reads.rows.size())}, at::TensorOptions().dtype(at::kInt));
  return head.Score(hidden.index_select(0, rows.to(hidden.device())));
}

// Adds the tensors that TakeLists takes.
void AddLists(const ModelHeads& heads, const PartHidden& part, const OutputSelection& outputs,
              Download* download) {
  DistributionResults distributions;
  if (part.rows.distributions.has_value()) {
    distributions = heads.language_model->Read(part.hidden, *part.rows.distributions, {outputs});
  }
  at::Tensor values;
  if (part.rows.values.has_value()) {
    values = TokenValues(*heads.reward, part.hidden, *part.rows.values);
  }
  const auto* tensor = std::begin(kDistributionTensors);
  ForEachList([&](const auto& spec) {
    const at::Tensor& list = spec.kOfDistributions ? distributions.*(*tensor++) : values;
    if (AmountOf(outputs, spec.output) > 0) {
      download->Add(list);
    }
  });
}

}  // namespace

absl::Status CheckHeads(const OutputSelection& outputs, const ModelInfo& model) {
  const bool is_decision = model.score_head == ScoreHead::kDecision;
  const auto asks_of = [&outputs](OutputHead head) {
    return std::any_of(kOutputs.begin(), kOutputs.end(), [&](const OutputSpec& spec) {
      return spec.head == head && AmountOf(outputs, spec.output) != 0;
    });
  };
  if (asks_of(OutputHead::kScoring) && (is_decision || !HasHead(model, OutputHead::kScoring))) {
    return absl::InvalidArgumentError(absl::StrCat(model.name, " has no scoring head",
                                                   is_decision ? " over single candidates" : ""));
  }
  if (asks_of(OutputHead::kLanguageModel) && !HasHead(model, OutputHead::kLanguageModel)) {
    return absl::InvalidArgumentError(absl::StrCat(model.name, " has no language-model head"));
  }
  if (asks_of(OutputHead::kValue) && !HasHead(model, OutputHead::kValue)) {
    return absl::InvalidArgumentError(absl::StrCat(model.name, " has no head of one label"));
  }
  if (outputs.top_logprobs < 0 || outputs.top_logprobs > model.vocab_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("top_logprobs ", outputs.top_logprobs, " is outside 0 .. ", model.vocab_size));
  }
  return absl::OkStatus();
}

PartOutput ComputeOutputs(const ModelHeads& heads, const PartHidden& part,
                          const OutputSelection& outputs) {
  const at::Tensor endpoints = part.hidden.narrow(0, 0, part.num_paths);
  // Hidden states and outputs are checked separately, because they fail for different reasons. A
  // hidden state may have its NaN from another path of the forest, so its question runs again path
  // by path. An output that is not finite although its hidden state is has overflowed in its own
  // head or in float16. Each of the heads below reads one row at a time, so another run would give
  // the same result, and no other path is the cause. The decision head reads several rows; it
  // leaves out the candidates that overflow in it (core/scoring/set_head.h).
  const at::Tensor finite_rows = FiniteRows(part.hidden);
  at::Tensor scores;
  at::Tensor finite_scores;
  if (outputs.scores) {
    scores = heads.reranker.has_value() ? heads.reranker->Score(endpoints)
                                        : heads.reward->Score(endpoints);
    finite_scores = FiniteRows(scores);
  }
  at::Tensor vectors;
  at::Tensor finite_vectors;
  if (outputs.vectors) {
    vectors = EndpointVectors(endpoints, ScalarTypeOf(outputs.vector_type), outputs.normalize);
    finite_vectors = FiniteRows(vectors);
  }
  at::Tensor raw_endpoints;
  if (outputs.endpoints) {
    raw_endpoints = endpoints.to(at::kFloat);
  }
  Download download;
  for (const at::Tensor& tensor :
       {finite_rows, finite_scores, finite_vectors, scores, raw_endpoints, vectors}) {
    download.Add(tensor);
  }
  AddLists(heads, part, outputs, &download);
  download.Copy();

  PartOutput output;
  std::vector<uint8_t> finite;
  download.Take(&finite);
  output.inner_finite = InnerFinite(part, finite);
  output.finite.assign(finite.begin(), finite.begin() + part.num_paths);
  output.unscored.assign(output.finite.size(), 0);
  download.Take(&finite);
  MarkRows(finite, Output::kScores, &output.unscored);
  download.Take(&finite);
  MarkRows(finite, Output::kVectors, &output.unscored);
  download.Take(&output.scores);
  download.Take(&output.endpoints);
  download.Take(&output.vectors);
  if (part.rows.values.has_value()) {
    output.values.entries = part.rows.values->entries;
  }
  if (part.rows.distributions.has_value()) {
    output.tokens.entries = part.rows.distributions->entries;
  }
  TakeLists(part.rows, outputs, &download, &output);
  MarkLists(&output);
  return output;
}

}  // namespace canopy
