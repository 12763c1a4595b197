#include "core/checkpoint/weight_schema.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "core/checkpoint/decision_layout.h"
#include "core/checkpoint/tensor_values.h"

namespace canopy {
namespace {

constexpr char kBackbonePrefix[] = "model.";
constexpr char kEmbedding[] = "embed_tokens.weight";
constexpr char kLanguageModelHead[] = "lm_head.weight";
constexpr char kClassifierHead[] = "score.weight";
constexpr char kFinalNorm[] = "norm.weight";
// The end of the names of buffers that transformers once saved with every layer.
constexpr char kRotaryFrequencies[] = "rotary_emb.inv_freq";
constexpr size_t kMaxNamesInMessage = 8;

// The names of tensors that do not match, by kind of mismatch.
struct Mismatches {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<std::string> wrong_shape;
  std::vector<std::string> wrong_dtype;
};

bool IsTied(const ModelConfig& config) {
  return config.head == ModelHead::kLanguageModel && config.tie_word_embeddings;
}

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

void AddAttention(const ModelConfig& config, const std::string& prefix,
                  std::vector<TensorSpec>* specs) {
  const int64_t hidden = config.hidden_size;
  AddProjection(prefix + "q_proj", config.query_size(), hidden, config.qkv_bias, specs);
  AddProjection(prefix + "k_proj", config.kv_size(), hidden, config.qkv_bias, specs);
  AddProjection(prefix + "v_proj", config.kv_size(), hidden, config.qkv_bias, specs);
  AddProjection(prefix + "o_proj", hidden, config.query_size(), config.output_bias, specs);
  if (config.qk_norm) {
    specs->push_back({prefix + "q_norm.weight", {config.head_dim}});
    specs->push_back({prefix + "k_norm.weight", {config.head_dim}});
  }
}

void AddLayer(const ModelConfig& config, int64_t layer, std::vector<TensorSpec>* specs) {
  const int64_t hidden = config.hidden_size;
  const std::string prefix = absl::StrCat("layers.", layer, ".");
  specs->push_back({prefix + "input_layernorm.weight", {hidden}});
  switch (config.mixer(layer)) {
    case MixerKind::kFullAttention:
    case MixerKind::kSlidingAttention:
      AddAttention(config, prefix + "self_attn.", specs);
      break;
  }
  specs->push_back({prefix + "post_attention_layernorm.weight", {hidden}});
  switch (config.channel(layer)) {
    case ChannelKind::kGatedMlp:
      AddMlp(prefix + "mlp.", hidden, config.intermediate_size, specs);
      break;
    case ChannelKind::kExperts:
      AddExperts(config, prefix + "mlp.", specs);
      break;
  }
}

// Returns the prefixes with which the source holds the backbone's tensor `name`.
std::vector<std::string> PrefixesOf(const WeightSource& source, absl::string_view name) {
  std::vector<std::string> found;
  for (const char* prefix : {kBackbonePrefix, "", kDecisionBackbonePrefix}) {
    if (source.Find(absl::StrCat(prefix, name)) != nullptr) {
      found.emplace_back(prefix);
    }
  }
  return found;
}

// Every checkpoint has an embedding, so the name of the embedding identifies the layout. The only
// exception is a tied language model, which may store its head instead.
absl::StatusOr<std::string> DetectPrefix(const WeightSource& source, const ModelConfig& config) {
  std::vector<std::string> found = PrefixesOf(source, kEmbedding);
  if (found.empty() && IsTied(config) && source.Find(kLanguageModelHead) != nullptr) {
    found = PrefixesOf(source, kFinalNorm);
  }
  if (found.size() == 1) {
    return found.front();
  }
  if (found.empty()) {
    // Wrappers such as those of peft and torch.compile add a prefix of their own to every name.
    return absl::DataLossError(absl::StrCat(
        "checkpoint holds neither ", kBackbonePrefix, kEmbedding, " nor ", kEmbedding, " nor ",
        kDecisionBackbonePrefix, kEmbedding,
        source.tensors().empty() ? ""
                                 : absl::StrCat("; its first tensor is ",
                                                PrintableName(source.tensors().front().name))));
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
  if (!IsFloat(tensor.dtype)) {
    mismatches->wrong_dtype.push_back(absl::StrCat(tensor.name, " ", DTypeName(tensor.dtype)));
  }
}

// Returns an error unless `head` has the same values as the embedding that it is tied to.
absl::Status CheckTiedHead(const TensorView& head, const TensorView& embedding,
                           const WantedCheck& check_wanted) {
  CANOPY_ASSIGN_OR_RETURN(const bool is_same, EqualValues(head, embedding, check_wanted));
  if (!is_same) {
    return absl::DataLossError(absl::StrCat(
        head.name, " differs from ", embedding.name,
        " although tie_word_embeddings is true; if the head is meant, set it to false"));
  }
  return absl::OkStatus();
}

// Returns the expected reward head of a language model. The number of labels is taken from the
// tensor.
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

// Returns rows [begin, end) of a matrix under another name. Precondition: the rows are inside it.
TensorView RowsOf(const TensorView& matrix, std::string name, int64_t begin, int64_t end) {
  const int64_t row_bytes = matrix.shape[1] * DTypeBytes(matrix.dtype);
  return {std::move(name),
          matrix.dtype,
          {end - begin, matrix.shape[1]},
          matrix.bytes.subspan(static_cast<size_t>(begin * row_bytes),
                               static_cast<size_t>((end - begin) * row_bytes))};
}

// Finds the tensors of one model in a source.
class Matching {
 public:
  Matching(const WeightSource& source, const ModelConfig& config, std::string prefix)
      : source_(source),
        config_(config),
        prefix_(std::move(prefix)),
        map_{source, {}, prefix_ == kDecisionBackbonePrefix, false, {}} {}

  // Maps the experts of one layer one by one if they are stored together, in one tensor for gates
  // and ups and another for downs. `name` is the canonical "layers.N.mlp.experts.".
  void SplitFusedExperts(const std::string& name) {
    const ExpertsConfig& experts = config_.experts;
    const int64_t intermediate = experts.intermediate_size;
    const TensorView* gate_up = FindFused(
        name + "gate_up_proj", {experts.num_experts, 2 * intermediate, config_.hidden_size});
    const TensorView* down =
        FindFused(name + "down_proj", {experts.num_experts, config_.hidden_size, intermediate});
    if (gate_up == nullptr || down == nullptr) {
      return;
    }
    const TensorView gate_up_rows = AsMatrix(*gate_up);
    const TensorView down_rows = AsMatrix(*down);
    for (int64_t expert = 0; expert < experts.num_experts; ++expert) {
      const auto add = [&](absl::string_view kind, const TensorView& rows, int64_t begin,
                           int64_t count) {
        map_.tensors.emplace(
            absl::StrCat(name, expert, ".", kind, ".weight"),
            RowsOf(rows, absl::StrCat(rows.name, "[", expert, "]"), begin, begin + count));
      };
      add("gate_proj", gate_up_rows, 2 * expert * intermediate, intermediate);
      add("up_proj", gate_up_rows, (2 * expert + 1) * intermediate, intermediate);
      add("down_proj", down_rows, expert * config_.hidden_size, config_.hidden_size);
    }
  }

  // Maps the tensors that the configuration requires and that are not mapped yet.
  void MatchSpecs() {
    for (const TensorSpec& spec :
         map_.has_decision_head ? DecisionTensors(config_) : ExpectedTensors(config_)) {
      if (map_.tensors.count(spec.name) > 0) {
        continue;
      }
      const std::string stored = spec.in_backbone ? prefix_ + spec.name : spec.name;
      const TensorView* tensor = source_.Find(stored);
      if (tensor == nullptr && spec.name == kEmbedding && is_tied()) {
        tensor = source_.Find(kLanguageModelHead);
      }
      if (tensor != nullptr) {
        CheckTensor(*tensor, spec, &mismatches_);
        used_.insert(tensor->name);
        map_.tensors.emplace(spec.name, *tensor);
      } else if (spec.name == kLanguageModelHead) {
        map_.lacks_lm_head = true;
      } else if (!IsPartOfWrongExperts(spec.name)) {
        mismatches_.missing.push_back(stored);
      }
    }
  }

  // Maps a reward head of a language model, and checks a tied head.
  absl::Status MatchHeads(const WantedCheck& check_wanted) {
    const TensorView* head = source_.Find(kLanguageModelHead);
    const TensorView* embedding = map_.Find(kEmbedding);
    if (is_tied() && head != nullptr && embedding != nullptr) {
      CANOPY_RETURN_IF_ERROR(CheckTiedHead(*head, *embedding, check_wanted));
      used_.insert(head->name);
    }
    const TensorView* reward = source_.Find(kClassifierHead);
    if (is_language_model() && reward != nullptr) {
      CheckTensor(*reward, RewardHeadBeside(config_, *reward), &mismatches_);
      used_.insert(reward->name);
      map_.tensors.emplace(kClassifierHead, *reward);
    }
    return absl::OkStatus();
  }

  // Divides the remaining tensors into ignored and unexpected ones.
  void SortOutTheRest() {
    int64_t num_frequencies = 0;
    for (const TensorView& tensor : source_.tensors()) {
      if (used_.count(tensor.name) > 0) {
        continue;
      }
      if (absl::EndsWith(tensor.name, kRotaryFrequencies)) {
        ++num_frequencies;
      } else if (tensor.name == kLanguageModelHead && !map_.has_decision_head &&
                 config_.head != ModelHead::kLanguageModel) {
        map_.ignored.push_back(absl::StrCat(kLanguageModelHead, " of a ", config_.architecture));
      } else {
        mismatches_.unexpected.push_back(PrintableName(tensor.name));
      }
    }
    if (num_frequencies > 0) {
      map_.ignored.push_back(absl::StrCat(num_frequencies, " tensors ", kRotaryFrequencies));
    }
  }

  const Mismatches& mismatches() const { return mismatches_; }
  WeightMap TakeMap() && { return std::move(map_); }

 private:
  bool is_language_model() const {
    return config_.head == ModelHead::kLanguageModel && !map_.has_decision_head;
  }
  bool is_tied() const { return IsTied(config_) && !map_.has_decision_head; }

  // Returns null if the source has no such tensor, or has one of another shape or dtype.
  const TensorView* FindFused(const std::string& name, const std::vector<int64_t>& shape) {
    const TensorView* tensor = source_.Find(prefix_ + name);
    if (tensor == nullptr) {
      return nullptr;
    }
    const size_t before = mismatches_.wrong_shape.size() + mismatches_.wrong_dtype.size();
    CheckTensor(*tensor, {name, shape}, &mismatches_);
    used_.insert(tensor->name);
    if (mismatches_.wrong_shape.size() + mismatches_.wrong_dtype.size() == before) {
      return tensor;
    }
    wrong_experts_.push_back(name.substr(0, name.rfind('.') + 1));
    return nullptr;
  }

  static TensorView AsMatrix(const TensorView& tensor) {
    TensorView matrix = tensor;
    matrix.shape = {tensor.shape[0] * tensor.shape[1], tensor.shape[2]};
    return matrix;
  }

  // If the fused tensor of a layer's experts has a wrong shape, its experts are not also reported
  // one by one.
  bool IsPartOfWrongExperts(const std::string& name) const {
    return std::any_of(wrong_experts_.begin(), wrong_experts_.end(),
                       [&](const std::string& prefix) { return absl::StartsWith(name, prefix); });
  }

  const WeightSource& source_;
  const ModelConfig& config_;
  const std::string prefix_;
  WeightMap map_;
  Mismatches mismatches_;
  std::set<absl::string_view> used_;
  std::vector<std::string> wrong_experts_;
};

}  // namespace

std::vector<TensorSpec> ExpectedTensors(const ModelConfig& config) {
  std::vector<TensorSpec> specs;
  specs.push_back({kEmbedding, {config.vocab_size, config.hidden_size}});
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    AddLayer(config, layer, &specs);
  }
  specs.push_back({kFinalNorm, {config.hidden_size}});
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

absl::StatusOr<WeightMap> MatchWeights(const WeightSource& source, const ModelConfig& config,
                                       const WantedCheck& check_wanted) {
  CANOPY_ASSIGN_OR_RETURN(const std::string prefix, DetectPrefix(source, config));
  Matching matching(source, config, prefix);
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    if (config.channel(layer) == ChannelKind::kExperts) {
      matching.SplitFusedExperts(absl::StrCat("layers.", layer, ".mlp.experts."));
    }
  }
  matching.MatchSpecs();
  CANOPY_RETURN_IF_ERROR(matching.MatchHeads(check_wanted));
  matching.SortOutTheRest();
  CANOPY_RETURN_IF_ERROR(ToStatus(matching.mismatches()));
  return std::move(matching).TakeMap();
}

}  // namespace canopy
