#include "core/checkpoint/model_config.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "core/checkpoint/config_reader.h"
#include "core/checkpoint/families/families.h"
#include "core/checkpoint/folder_snapshot.h"

namespace canopy {
namespace {

using nlohmann::json;

// The limits are far above published models. They keep layers * 3 * hidden * intermediate * 8 bytes
// and vocabulary * hidden * 8 bytes below 2^63.
constexpr int64_t kMaxVocabSize = 1 << 24;
constexpr int64_t kMaxHiddenSize = 1 << 17;
constexpr int64_t kMaxIntermediateSize = 1 << 20;
constexpr int64_t kMaxLayers = 1 << 10;
constexpr int64_t kMaxHeads = 1 << 10;
constexpr int64_t kMaxHeadDim = 1 << 10;
constexpr int64_t kMaxLabels = 1 << 16;
constexpr int64_t kMaxExperts = 1 << 10;
// Each expert has three tensors with names of their own.
constexpr int64_t kMaxExpertsInAllLayers = 1 << 17;
constexpr double kMaxRmsNormEps = 1.0;

// Grouped products need rows that start at multiples of 16 bytes, also with 16-bit elements.
constexpr int64_t kExpertAlignment = 8;

// The number of labels that transformers assumes if a classifier's config does not give one.
constexpr int64_t kDefaultNumLabels = 2;

constexpr std::pair<ModelHead, absl::string_view> kHeads[] = {
    {ModelHead::kNone, "Model"},
    {ModelHead::kLanguageModel, "ForCausalLM"},
    {ModelHead::kClassifier, "ForSequenceClassification"},
};

absl::Status ReadModelType(const ConfigReader& root, const Family** family) {
  const json* model_type = root.Find("model_type");
  if (model_type == nullptr) {
    return root.Missing("model_type");
  }
  std::vector<absl::string_view> names;
  for (const Family& candidate : AllFamilies()) {
    names.push_back(candidate.model_type);
    if (*model_type == std::string(candidate.model_type)) {
      *family = &candidate;
      return absl::OkStatus();
    }
  }
  return root.Refuse("model_type", *model_type,
                     absl::StrCat("one of ", absl::StrJoin(names, ", ")));
}

absl::Status ReadArchitecture(const ConfigReader& root, const Family& family, ModelConfig* config) {
  const json* names = root.Find("architectures");
  if (names == nullptr) {
    return root.Missing("architectures");
  }
  std::vector<std::string> known;
  for (const auto& [head, suffix] : kHeads) {
    known.push_back(absl::StrCat(family.class_prefix, suffix));
    if (*names == json::array({known.back()})) {
      config->architecture = known.back();
      config->head = head;
      return absl::OkStatus();
    }
  }
  return root.Refuse("architectures", *names, absl::StrCat("one of ", absl::StrJoin(known, ", ")));
}

absl::Status ReadSizes(const ConfigReader& root, ModelConfig* config) {
  CANOPY_RETURN_IF_ERROR(root.ReadInteger("vocab_size", kMaxVocabSize, &config->vocab_size));
  CANOPY_RETURN_IF_ERROR(root.ReadInteger("hidden_size", kMaxHiddenSize, &config->hidden_size));
  CANOPY_RETURN_IF_ERROR(
      root.ReadInteger("intermediate_size", kMaxIntermediateSize, &config->intermediate_size));
  CANOPY_RETURN_IF_ERROR(root.ReadInteger("num_hidden_layers", kMaxLayers, &config->num_layers));
  CANOPY_RETURN_IF_ERROR(
      root.ReadInteger("max_position_embeddings", kMaxPositions, &config->max_position_embeddings));
  return root.ReadNumber("rms_norm_eps", kMaxRmsNormEps, &config->rms_norm_eps);
}

absl::Status ReadHeadDim(const ConfigReader& root, const Family& family, ModelConfig* config) {
  if (root.Find("head_dim") != nullptr) {
    CANOPY_RETURN_IF_ERROR(root.ReadInteger("head_dim", kMaxHeadDim, &config->head_dim));
  } else if (family.default_head_dim > 0) {
    config->head_dim = family.default_head_dim;
  } else if (config->hidden_size % config->num_query_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("head_dim is missing and hidden_size ", config->hidden_size,
                     " is not a multiple of num_attention_heads ", config->num_query_heads));
  } else {
    config->head_dim = config->hidden_size / config->num_query_heads;
  }
  // Rotary embeddings rotate pairs of elements.
  if (config->head_dim % 2 != 0 || config->head_dim > kMaxHeadDim) {
    return absl::InvalidArgumentError(
        absl::StrCat("head_dim: ", config->head_dim,
                     " is not supported; expected an even number up to ", kMaxHeadDim));
  }
  return absl::OkStatus();
}

absl::Status ReadAttention(const ConfigReader& root, const Family& family, ModelConfig* config) {
  CANOPY_RETURN_IF_ERROR(
      root.ReadInteger("num_attention_heads", kMaxHeads, &config->num_query_heads));
  if (root.Find("num_key_value_heads") == nullptr && family.default_kv_heads) {
    config->num_kv_heads = config->num_query_heads;
  } else {
    CANOPY_RETURN_IF_ERROR(
        root.ReadInteger("num_key_value_heads", kMaxHeads, &config->num_kv_heads));
  }
  if (config->num_query_heads % config->num_kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("num_attention_heads: ", config->num_query_heads,
                                                   " is not a multiple of num_key_value_heads ",
                                                   config->num_kv_heads));
  }
  bool configured_bias = false;
  CANOPY_RETURN_IF_ERROR(root.ReadOptionalBool("attention_bias", &configured_bias));
  configured_bias &= family.attention_bias == AttentionBias::kConfigured;
  config->qkv_bias = configured_bias || family.attention_bias == AttentionBias::kQkv;
  config->output_bias = configured_bias;
  config->qk_norm = family.qk_norm;
  return ReadHeadDim(root, family, config);
}

// Reads the window of sliding layers, or 0 if there are none.
absl::Status ReadSlidingWindow(const ConfigReader& root, const Family& family, int64_t* window) {
  *window = 0;
  if (family.sliding_windows == SlidingWindows::kAllLayers) {
    if (!root.object().contains("sliding_window")) {
      return root.Missing("sliding_window (null = full attention)");
    }
    return root.ReadOptionalInteger("sliding_window", kMaxPositions, window);
  }
  if (family.sliding_windows == SlidingWindows::kNone) {
    CANOPY_RETURN_IF_ERROR(root.CheckAbsentOr("sliding_window", nullptr));
    return root.CheckAbsentOr("use_sliding_window", false);
  }
  bool used = false;
  CANOPY_RETURN_IF_ERROR(root.ReadOptionalBool("use_sliding_window", &used));
  return used ? root.ReadInteger("sliding_window", kMaxPositions, window) : absl::OkStatus();
}

// Returns [layers]: the layers that slide if there is no `layer_types`.
absl::StatusOr<std::vector<bool>> SlidingByDefault(const ConfigReader& root, const Family& family,
                                                   int64_t num_layers) {
  uint64_t first = 0;
  if (family.sliding_windows == SlidingWindows::kConfiguredLayers) {
    const json* value = root.Find("max_window_layers");
    if (value == nullptr) {
      return root.Missing("max_window_layers");
    }
    if (!value->is_number_unsigned()) {
      return root.Refuse("max_window_layers", *value, "an integer from 0");
    }
    first = value->get<uint64_t>();
  }
  std::vector<bool> sliding(static_cast<size_t>(num_layers));
  for (size_t layer = 0; layer < sliding.size(); ++layer) {
    sliding[layer] = layer >= first;
  }
  return sliding;
}

// On entry, `sliding` [layers] holds the layers that slide if there is no `layer_types`. In some
// families `layer_types` overrides it, in the others it must agree with it.
absl::Status ReadLayerTypes(const ConfigReader& root, const Family& family, bool has_window,
                            std::vector<bool>* sliding) {
  const json* types = root.Find("layer_types");
  if (types == nullptr) {
    return absl::OkStatus();
  }
  if (!types->is_array() || types->size() != sliding->size()) {
    return root.Refuse("layer_types", *types, absl::StrCat("a list of ", sliding->size()));
  }
  const bool decides = has_window && family.sliding_windows == SlidingWindows::kConfiguredLayers;
  for (size_t layer = 0; layer < types->size(); ++layer) {
    const json& type = (*types)[layer];
    const bool slides = type == "sliding_attention";
    const bool known = slides || type == "full_attention";
    if (!known || (!decides && slides != (*sliding)[layer])) {
      return root.Refuse(absl::StrCat("layer_types[", layer, "]"), type,
                         decides             ? "\"full_attention\" or \"sliding_attention\""
                         : (*sliding)[layer] ? "\"sliding_attention\""
                                             : "\"full_attention\"");
    }
    (*sliding)[layer] = slides;
  }
  return absl::OkStatus();
}

absl::Status ReadSlidingLayers(const ConfigReader& root, const Family& family,
                               ModelConfig* config) {
  int64_t window = 0;
  CANOPY_RETURN_IF_ERROR(ReadSlidingWindow(root, family, &window));
  std::vector<bool> sliding(static_cast<size_t>(config->num_layers), false);
  if (window > 0 && root.Find("layer_types") == nullptr) {
    CANOPY_ASSIGN_OR_RETURN(sliding, SlidingByDefault(root, family, config->num_layers));
  } else if (window > 0) {
    sliding.assign(sliding.size(), true);
  }
  CANOPY_RETURN_IF_ERROR(ReadLayerTypes(root, family, window > 0, &sliding));
  // A window that is at least as long as the longest path hides no token, so the layers have full
  // attention.
  if (window < config->max_positions &&
      std::find(sliding.begin(), sliding.end(), true) != sliding.end()) {
    config->sliding_window = window;
    config->sliding_layers = std::move(sliding);
  }
  return absl::OkStatus();
}

// Reads both spellings: published folders have `num_experts`, transformers 5 writes
// `num_local_experts`.
absl::Status ReadNumExperts(const ConfigReader& root, ExpertsConfig* experts) {
  int64_t published = 0;
  CANOPY_RETURN_IF_ERROR(root.ReadOptionalInteger("num_experts", kMaxExperts, &published));
  experts->num_experts = published;
  CANOPY_RETURN_IF_ERROR(
      root.ReadOptionalInteger("num_local_experts", kMaxExperts, &experts->num_experts));
  if (experts->num_experts == 0) {
    return root.Missing("num_experts (or num_local_experts)");
  }
  if (published > 0 && published != experts->num_experts) {
    return root.Refuse("num_local_experts", experts->num_experts,
                       absl::StrCat("the same as num_experts ", published));
  }
  return absl::OkStatus();
}

// Computes [layers]: the layers that `mlp_only_layers` and `decoder_sparse_step` leave sparse.
absl::Status ReadSparseLayers(const ConfigReader& root, int64_t num_layers,
                              std::vector<bool>* sparse) {
  int64_t step = 1;
  CANOPY_RETURN_IF_ERROR(root.ReadOptionalInteger("decoder_sparse_step", kMaxLayers, &step));
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    sparse->push_back((layer + 1) % step == 0);
  }
  const json* dense = root.Find("mlp_only_layers");
  if (dense == nullptr) {
    return absl::OkStatus();
  }
  if (!dense->is_array()) {
    return root.Refuse("mlp_only_layers", *dense, "a list");
  }
  for (const json& layer : *dense) {
    if (!layer.is_number_unsigned() || layer.get<uint64_t>() >= sparse->size()) {
      return root.Refuse("mlp_only_layers", layer,
                         absl::StrCat("layers from 0 to ", sparse->size() - 1));
    }
    (*sparse)[layer.get<size_t>()] = false;
  }
  return absl::OkStatus();
}

absl::Status ReadExperts(const ConfigReader& root, ModelConfig* config) {
  ExpertsConfig& experts = config->experts;
  CANOPY_RETURN_IF_ERROR(ReadNumExperts(root, &experts));
  CANOPY_RETURN_IF_ERROR(
      root.ReadInteger("num_experts_per_tok", experts.num_experts, &experts.experts_per_token));
  CANOPY_RETURN_IF_ERROR(
      root.ReadInteger("moe_intermediate_size", kMaxIntermediateSize, &experts.intermediate_size));
  // The key is required, because the default of transformers differs from the value in published
  // folders.
  if (root.Find("norm_topk_prob") == nullptr) {
    return root.Missing("norm_topk_prob");
  }
  CANOPY_RETURN_IF_ERROR(root.ReadOptionalBool("norm_topk_prob", &experts.normalize_weights));
  for (const int64_t size : {config->hidden_size, experts.intermediate_size}) {
    if (size % kExpertAlignment != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("hidden_size and moe_intermediate_size: ", size, " is not a multiple of ",
                       kExpertAlignment));
    }
  }
  if (experts.num_experts * config->num_layers > kMaxExpertsInAllLayers) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_experts: ", experts.num_experts, " in each of ", config->num_layers,
                     " layers are more than ", kMaxExpertsInAllLayers, " in all"));
  }
  return ReadSparseLayers(root, config->num_layers, &experts.sparse_layers);
}

// Quantized weights have other tensor names and types. They are not supported.
absl::Status CheckNotQuantised(const ConfigReader& root) {
  for (const char* key : {"quantization_config", "compression_config", "quantization"}) {
    const json* value = root.Find(key);
    if (value == nullptr) {
      continue;
    }
    const auto method = value->is_object() ? value->find("quant_method") : value->end();
    const bool is_named = value->is_object() && method != value->end();
    return absl::InvalidArgumentError(absl::StrCat(
        key, ": the checkpoint is quantised (",
        is_named ? absl::StrCat("quant_method ", DescribeJson(*method)) : DescribeJson(*value),
        "); only float32, bfloat16 and float16 weights are read, so serve the checkpoint that it "
        "was made from"));
  }
  return absl::OkStatus();
}

absl::Status CheckComputation(const ConfigReader& root) {
  CANOPY_RETURN_IF_ERROR(root.CheckAbsentOr("hidden_act", "silu"));
  CANOPY_RETURN_IF_ERROR(root.CheckAbsentOr("is_causal", true));
  CANOPY_RETURN_IF_ERROR(root.CheckAbsentOr("use_bidirectional_attention", false));
  CANOPY_RETURN_IF_ERROR(root.CheckAbsentOr("partial_rotary_factor", 1.0));
  CANOPY_RETURN_IF_ERROR(root.CheckAbsentOr("mlp_bias", false));
  return CheckNotQuantised(root);
}

// An id outside the vocabulary, such as -1, is ignored, because no path can end with it.
void ReadPadToken(const ConfigReader& root, ModelConfig* config) {
  const json* pad = root.Find("pad_token_id");
  if (pad != nullptr && pad->is_number_unsigned() &&
      pad->get<uint64_t>() < static_cast<uint64_t>(config->vocab_size)) {
    config->pad_token = pad->get<int32_t>();
  }
}

absl::Status ReadLabels(const ConfigReader& root, ModelConfig* config) {
  std::optional<int64_t> named;
  if (const json* labels = root.Find("id2label"); labels != nullptr) {
    const auto limit = static_cast<size_t>(kMaxLabels);
    if (!labels->is_object() || labels->empty() || labels->size() > limit) {
      return root.Refuse("id2label", *labels, absl::StrCat("an object of 1 to ", kMaxLabels));
    }
    named = static_cast<int64_t>(labels->size());
  }
  config->num_labels = named.value_or(kDefaultNumLabels);
  CANOPY_RETURN_IF_ERROR(root.ReadOptionalInteger("num_labels", kMaxLabels, &config->num_labels));
  if (named.has_value() && *named != config->num_labels) {
    return absl::InvalidArgumentError(absl::StrCat(
        "num_labels: ", config->num_labels, " contradicts id2label with ", *named, " entries"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view text) {
  CANOPY_ASSIGN_OR_RETURN(const json document, ParseStrictJson(text, JsonLimits{}));
  if (!document.is_object()) {
    return absl::InvalidArgumentError("the configuration is not a JSON object");
  }
  const ConfigReader root(document);
  const Family* family = nullptr;
  ModelConfig config;
  CANOPY_RETURN_IF_ERROR(ReadModelType(root, &family));
  CANOPY_RETURN_IF_ERROR(ReadArchitecture(root, *family, &config));
  CANOPY_RETURN_IF_ERROR(CheckComputation(root));
  CANOPY_RETURN_IF_ERROR(ReadSizes(root, &config));
  CANOPY_RETURN_IF_ERROR(ReadAttention(root, *family, &config));
  const RopeDefaults defaults = {config.max_position_embeddings, family->default_rope_theta};
  CANOPY_ASSIGN_OR_RETURN(config.rope, ReadRopeConfig(root, defaults, &config.ignored_keys));
  config.max_positions = LongestPath(config.rope, config.max_position_embeddings);
  CANOPY_RETURN_IF_ERROR(ReadSlidingLayers(root, *family, &config));
  if (family->sparse_experts) {
    CANOPY_RETURN_IF_ERROR(ReadExperts(root, &config));
  }
  CANOPY_RETURN_IF_ERROR(root.ReadOptionalBool("tie_word_embeddings", &config.tie_word_embeddings));
  if (config.head == ModelHead::kClassifier) {
    CANOPY_RETURN_IF_ERROR(ReadLabels(root, &config));
    ReadPadToken(root, &config);
  }
  if (const json* code = root.Find("auto_map"); code != nullptr) {
    config.auto_map = DescribeJson(*code);
  }
  return config;
}

absl::StatusOr<ModelConfig> ReadModelConfig(FolderSnapshot* folder, const std::string& name) {
  CANOPY_ASSIGN_OR_RETURN(const std::string text, folder->ReadText(name, JsonLimits{}.max_bytes));
  absl::StatusOr<ModelConfig> config = ParseModelConfig(text);
  if (!config.ok()) {
    return absl::Status(config.status().code(),
                        absl::StrCat(folder->PathOf(name), ": ", config.status().message()));
  }
  return config;
}

absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& path) {
  std::filesystem::path file = path;
  if (std::error_code ignored; std::filesystem::is_directory(file, ignored)) {
    file /= kConfigFile;
  }
  const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
  auto snapshot = FolderSnapshot::Open(folder);
  if (absl::IsNotFound(snapshot.status())) {
    return absl::NotFoundError(absl::StrCat("no configuration ", path));
  }
  CANOPY_RETURN_IF_ERROR(snapshot.status());
  CANOPY_ASSIGN_OR_RETURN(ModelConfig config,
                          ReadModelConfig(&*snapshot, file.filename().string()));
  CANOPY_RETURN_IF_ERROR(snapshot->CheckUnchanged());
  return config;
}

}  // namespace canopy
