#include "core/engine/part_heads.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "ATen/ops/cat.h"
#include "ATen/ops/from_blob.h"
#include "absl/strings/str_cat.h"
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

// Device tensors that come to the host in one copy and are then taken in the order in which they
// were added.
class Download {
 public:
  // An undefined tensor is taken as nothing.
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

  // Container: std::vector of a number, or std::string.
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

// What `index` says of the elements, `width` values each.
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

// Marks paths with an entry that is not finite. The list has as many values for each entry.
void MarkNonFinite(const TokenEntries& entries, const std::vector<float>& list,
                   std::vector<uint8_t>* finite) {
  if (list.empty()) {
    return;
  }
  const auto width = static_cast<int64_t>(list.size()) / entries.size();
  for (size_t path = 0; path < finite->size(); ++path) {
    const bool all = std::all_of(list.begin() + entries.offsets[path] * width,
                                 list.begin() + entries.offsets[path + 1] * width,
                                 [](float value) { return std::isfinite(value); });
    (*finite)[path] &= all ? 1 : 0;
  }
}

void AddDistributions(const DistributionResults& results, Download* download) {
  for (const at::Tensor& tensor : {results.logprobs, results.entropy, results.min_logit,
                                   results.max_logit, results.top_ids, results.top_logprobs}) {
    download->Add(tensor);
  }
}

// In the order of AddDistributions. Every path that reads a distribution gets its results.
TokenOutputs TakeTokens(const DistributionReads& reads, int32_t num_top, Download* download) {
  std::vector<float> logprobs;
  std::vector<float> entropy;
  std::vector<float> min_logit;
  std::vector<float> max_logit;
  std::vector<int32_t> top_ids;
  std::vector<float> top_logprobs;
  download->Take(&logprobs);
  download->Take(&entropy);
  download->Take(&min_logit);
  download->Take(&max_logit);
  download->Take(&top_ids);
  download->Take(&top_logprobs);
  const auto width = static_cast<size_t>(num_top);
  TokenOutputs tokens;
  tokens.entries = reads.entries;
  tokens.logprobs = Expand(logprobs, reads.entry_target, 1);
  tokens.entropy = Expand(entropy, reads.entry_distribution, 1);
  tokens.min_logit = Expand(min_logit, reads.entry_distribution, 1);
  tokens.max_logit = Expand(max_logit, reads.entry_distribution, 1);
  tokens.top_ids = Expand(top_ids, reads.entry_distribution, width);
  tokens.top_logprobs = Expand(top_logprobs, reads.entry_distribution, width);
  return tokens;
}

ValueOutputs TakeValues(const ValueReads& reads, Download* download) {
  std::vector<float> token_values;
  download->Take(&token_values);
  ValueOutputs values;
  values.entries = reads.entries;
  values.values = Expand(token_values, reads.entry_token, 1);
  return values;
}

DistributionOptions OptionsOf(const OutputSelection& outputs) {
  DistributionOptions options;
  options.logprobs = outputs.token_logprobs;
  options.entropy = outputs.entropy;
  options.vocab_range = outputs.vocab_range;
  options.top_logprobs = outputs.top_logprobs;
  options.temperature = outputs.temperature;
  return options;
}

// The reward head's value of each token, [tokens, 1].
at::Tensor TokenValues(const RewardHead& head, const at::Tensor& hidden, const ValueReads& reads) {
  // LibTorch has no read-only tensors; this one is only read.
  const at::Tensor rows =
      at::from_blob(const_cast<int32_t*>(reads.rows.data()),
                    {static_cast<int64_t>(reads.rows.size())}, at::TensorOptions().dtype(at::kInt));
  return head.Score(hidden.index_select(0, rows.to(hidden.device())));
}

}  // namespace

absl::Status CheckHeads(const OutputSelection& outputs, const ModelInfo& model) {
  const bool is_decision = model.score_head == ScoreHead::kDecision;
  if (outputs.scores && (model.num_labels == 0 || is_decision)) {
    return absl::InvalidArgumentError(absl::StrCat(model.name, " has no scoring head",
                                                   is_decision ? " over single candidates" : ""));
  }
  if (outputs.distributions() && !model.has_lm_head) {
    return absl::InvalidArgumentError(absl::StrCat(model.name, " has no language-model head"));
  }
  if (outputs.values && !model.has_value_head) {
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
  // A finite hidden state may still overflow in a head or in float16.
  at::Tensor finite = FiniteRows(endpoints);
  at::Tensor scores;
  if (outputs.scores) {
    scores = heads.reranker.has_value() ? heads.reranker->Score(endpoints)
                                        : heads.reward->Score(endpoints);
    finite = finite.logical_and(FiniteRows(scores));
  }
  at::Tensor vectors;
  if (outputs.vectors) {
    vectors = EndpointVectors(endpoints, ScalarTypeOf(outputs.vector_type), outputs.normalize);
    finite = finite.logical_and(FiniteRows(vectors));
  }
  at::Tensor raw_endpoints;
  if (outputs.endpoints) {
    raw_endpoints = endpoints.to(at::kFloat);
  }
  Download download;
  for (const at::Tensor& tensor : {finite, scores, raw_endpoints, vectors}) {
    download.Add(tensor);
  }
  if (part.rows.values.has_value()) {
    download.Add(TokenValues(*heads.reward, part.hidden, *part.rows.values));
  }
  if (part.rows.distributions.has_value()) {
    AddDistributions(
        heads.language_model->Read(part.hidden, *part.rows.distributions, OptionsOf(outputs)),
        &download);
  }
  download.Copy();

  PartOutput output;
  download.Take(&output.finite);
  download.Take(&output.scores);
  download.Take(&output.endpoints);
  download.Take(&output.vectors);
  if (part.rows.values.has_value()) {
    output.values = TakeValues(*part.rows.values, &download);
    MarkNonFinite(output.values.entries, output.values.values, &output.finite);
  }
  if (part.rows.distributions.has_value()) {
    output.tokens = TakeTokens(*part.rows.distributions, outputs.top_logprobs, &download);
    const TokenOutputs& tokens = output.tokens;
    for (const std::vector<float>* list : {&tokens.logprobs, &tokens.entropy, &tokens.min_logit,
                                           &tokens.max_logit, &tokens.top_logprobs}) {
      MarkNonFinite(tokens.entries, *list, &output.finite);
    }
  }
  return output;
}

}  // namespace canopy
