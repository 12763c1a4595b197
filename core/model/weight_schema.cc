#include "core/model/weight_schema.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/model/decision_layout.h"

namespace canopy {
namespace {

constexpr char kBackbonePrefix[] = "model.";
constexpr char kEmbedding[] = "embed_tokens.weight";
constexpr char kLanguageModelHead[] = "lm_head.weight";
constexpr char kClassifierHead[] = "score.weight";
constexpr size_t kMaxNamesInMessage = 8;

// What is wrong with a source, by kind.
struct Mismatches {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<std::string> wrong_shape;
  std::vector<std::string> wrong_dtype;
};

void AddProjection(const std::string& name, int64_t out, int64_t in, bool has_bias,
                   std::vector<TensorSpec>* specs) {
  specs->push_back({absl::StrCat(name, ".weight"), {out, in}});
  if (has_bias) {
    specs->push_back({absl::StrCat(name, ".bias"), {out}});
  }
}

void AddMlp(const std::string& prefix, int64_t hidden, int64_t intermediate,
            std::vector<TensorSpec>* specs) {
  AddProjection(prefix + "gate_proj", intermediate, hidden, false, specs);
  AddProjection(prefix + "up_proj", intermediate, hidden, false, specs);
  AddProjection(prefix + "down_proj", hidden, intermediate, false, specs);
}

void AddExperts(const ModelConfig& config, const std::string& prefix,
                std::vector<TensorSpec>* specs) {
  const ExpertsConfig& experts = config.experts;
  AddProjection(prefix + "gate", experts.num_experts, config.hidden_size, false, specs);
  for (int64_t expert = 0; expert < experts.num_experts; ++expert) {
    AddMlp(absl::StrCat(prefix, "experts.", expert, "."), config.hidden_size,
           experts.intermediate_size, specs);
  }
}

void AddLayer(const ModelConfig& config, int64_t layer, std::vector<TensorSpec>* specs) {
  const int64_t hidden = config.hidden_size;
  const std::string prefix = absl::StrCat("layers.", layer, ".");
  const std::string attention = prefix + "self_attn.";
  specs->push_back({prefix + "input_layernorm.weight", {hidden}});
  AddProjection(attention + "q_proj", config.query_size(), hidden, config.qkv_bias, specs);
  AddProjection(attention + "k_proj", config.kv_size(), hidden, config.qkv_bias, specs);
  AddProjection(attention + "v_proj", config.kv_size(), hidden, config.qkv_bias, specs);
  AddProjection(attention + "o_proj", hidden, config.query_size(), config.output_bias, specs);
  if (config.qk_norm) {
    specs->push_back({attention + "q_norm.weight", {config.head_dim}});
    specs->push_back({attention + "k_norm.weight", {config.head_dim}});
  }
  specs->push_back({prefix + "post_attention_layernorm.weight", {hidden}});
  if (config.sparse(layer)) {
    AddExperts(config, prefix + "mlp.", specs);
  } else {
    AddMlp(prefix + "mlp.", hidden, config.intermediate_size, specs);
  }
}

// The embedding stands in every checkpoint, so it tells which layout this is.
absl::StatusOr<std::string> DetectPrefix(const WeightSource& source) {
  const std::string prefixes[] = {kBackbonePrefix, "", kDecisionBackbonePrefix};
  std::vector<std::string> found;
  for (const std::string& prefix : prefixes) {
    if (source.Find(prefix + kEmbedding) != nullptr) {
      found.push_back(prefix);
    }
  }
  if (found.size() == 1) {
    return found.front();
  }
  if (found.empty()) {
    return absl::DataLossError(absl::StrCat("checkpoint holds neither ", kBackbonePrefix,
                                            kEmbedding, " nor ", kEmbedding, " nor ",
                                            kDecisionBackbonePrefix, kEmbedding));
  }
  return absl::DataLossError(
      absl::StrCat("checkpoint holds both ", found[0], kEmbedding, " and ", found[1], kEmbedding));
}

std::string DescribeShape(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

void CheckTensor(const TensorView& tensor, const TensorSpec& spec, Mismatches* mismatches) {
  if (tensor.shape != spec.shape) {
    mismatches->wrong_shape.push_back(absl::StrCat(tensor.name, " ", DescribeShape(tensor.shape),
                                                   " instead of ", DescribeShape(spec.shape)));
  }
  if (tensor.dtype != DType::kFloat32 && tensor.dtype != DType::kBFloat16 &&
      tensor.dtype != DType::kFloat16) {
    mismatches->wrong_dtype.push_back(absl::StrCat(tensor.name, " ", DTypeName(tensor.dtype)));
  }
}

// Whether `head` merely repeats the embedding that the configuration ties it to.
absl::Status CheckTiedHead(const TensorView& head, const TensorView& embedding) {
  if (head.dtype != embedding.dtype || head.shape != embedding.shape ||
      head.bytes != embedding.bytes) {
    return absl::DataLossError(absl::StrCat(head.name, " differs from ", embedding.name,
                                            " although tie_word_embeddings is true"));
  }
  return absl::OkStatus();
}

// What a reward head that a language model carries must be; it says itself how many labels it has.
TensorSpec RewardHeadBeside(const ModelConfig& config, const TensorView& head) {
  const int64_t num_labels = head.shape.empty() ? 1 : std::max<int64_t>(head.shape[0], 1);
  return {kClassifierHead, {num_labels, config.hidden_size}, /*in_backbone=*/false};
}

void AppendMismatch(absl::string_view kind, const std::vector<std::string>& names,
                    std::string* message) {
  if (names.empty()) {
    return;
  }
  const size_t shown = std::min(names.size(), kMaxNamesInMessage);
  absl::StrAppend(message, message->empty() ? "" : "; ", names.size(), " ", kind, ": ",
                  absl::StrJoin(names.begin(), names.begin() + static_cast<int64_t>(shown), ", "),
                  names.size() > shown ? ", ..." : "");
}

absl::Status ToStatus(const Mismatches& mismatches) {
  std::string message;
  AppendMismatch("missing", mismatches.missing, &message);
  AppendMismatch("unexpected", mismatches.unexpected, &message);
  AppendMismatch("of the wrong shape", mismatches.wrong_shape, &message);
  AppendMismatch("of a dtype other than F32, BF16 and F16", mismatches.wrong_dtype, &message);
  if (message.empty()) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("tensors do not fit the configuration: ", message));
}

}  // namespace

std::vector<TensorSpec> ExpectedTensors(const ModelConfig& config) {
  std::vector<TensorSpec> specs;
  specs.push_back({kEmbedding, {config.vocab_size, config.hidden_size}});
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    AddLayer(config, layer, &specs);
  }
  specs.push_back({"norm.weight", {config.hidden_size}});
  if (config.head == ModelHead::kLanguageModel && !config.tie_word_embeddings) {
    specs.push_back(
        {kLanguageModelHead, {config.vocab_size, config.hidden_size}, /*in_backbone=*/false});
  }
  if (config.head == ModelHead::kClassifier) {
    specs.push_back(
        {kClassifierHead, {config.num_labels, config.hidden_size}, /*in_backbone=*/false});
  }
  return specs;
}

std::vector<TensorSpec> DecisionTensors(const ModelConfig& backbone) {
  ModelConfig base = backbone;
  base.head = ModelHead::kNone;
  std::vector<TensorSpec> specs = ExpectedTensors(base);
  for (TensorSpec& spec : DecisionHeadTensors(backbone.hidden_size)) {
    specs.push_back(std::move(spec));
  }
  return specs;
}

int64_t CountParameters(const ModelConfig& config) {
  int64_t total = 0;
  for (const TensorSpec& spec : ExpectedTensors(config)) {
    total += NumElements(spec.shape);
  }
  return total;
}

int64_t WeightMap::CountParameters() const {
  int64_t total = 0;
  for (const auto& [name, tensor] : tensors) {
    total += NumElements(tensor.shape);
  }
  return total;
}

const TensorView* WeightMap::Find(absl::string_view canonical_name) const {
  const auto found = tensors.find(canonical_name);
  return found == tensors.end() ? nullptr : &found->second;
}

absl::StatusOr<WeightMap> MatchWeights(const WeightSource& source, const ModelConfig& config) {
  CANOPY_ASSIGN_OR_RETURN(const std::string prefix, DetectPrefix(source));
  WeightMap map{source, {}, prefix == kDecisionBackbonePrefix};
  Mismatches mismatches;
  std::set<absl::string_view> used;
  for (const TensorSpec& spec :
       map.has_decision_head ? DecisionTensors(config) : ExpectedTensors(config)) {
    const std::string stored = spec.in_backbone ? prefix + spec.name : spec.name;
    const TensorView* tensor = source.Find(stored);
    if (tensor == nullptr) {
      mismatches.missing.push_back(stored);
      continue;
    }
    CheckTensor(*tensor, spec, &mismatches);
    used.insert(tensor->name);
    map.tensors.emplace(spec.name, *tensor);
  }
  const bool is_language_model = config.head == ModelHead::kLanguageModel && !map.has_decision_head;
  const bool tied = is_language_model && config.tie_word_embeddings;
  const TensorView* head = source.Find(kLanguageModelHead);
  if (tied && head != nullptr) {
    CANOPY_RETURN_IF_ERROR(CheckTiedHead(*head, *source.Find(prefix + kEmbedding)));
    used.insert(head->name);
  }
  const TensorView* reward = source.Find(kClassifierHead);
  if (is_language_model && reward != nullptr) {
    CheckTensor(*reward, RewardHeadBeside(config, *reward), &mismatches);
    used.insert(reward->name);
    map.tensors.emplace(kClassifierHead, *reward);
  }
  for (const TensorView& tensor : source.tensors()) {
    if (used.count(tensor.name) == 0) {
      mismatches.unexpected.push_back(PrintableName(tensor.name));
    }
  }
  CANOPY_RETURN_IF_ERROR(ToStatus(mismatches));
  return map;
}

}  // namespace canopy
