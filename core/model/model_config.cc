#include "core/model/model_config.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/model/config_reader.h"
#include "core/model/families/families.h"
#include "core/model/mapped_file.h"
#include "core/model/strict_json.h"

namespace canopy {
namespace {

using nlohmann::json;

// Far above published models, and so low that layers * 3 * hidden * intermediate * 8 bytes and
// vocabulary * hidden * 8 bytes stay below 2^63.
constexpr int64_t kMaxVocabSize = 1 << 24;
constexpr int64_t kMaxHiddenSize = 1 << 17;
constexpr int64_t kMaxIntermediateSize = 1 << 20;
constexpr int64_t kMaxLayers = 1 << 10;
constexpr int64_t kMaxHeads = 1 << 10;
constexpr int64_t kMaxHeadDim = 1 << 10;
constexpr int64_t kMaxPositions = 1 << 24;
constexpr int64_t kMaxLabels = 1 << 16;
constexpr double kMaxRmsNormEps = 1.0;

// What transformers assumes for a classifier that says nothing.
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
  // Rotary embeddings turn pairs.
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

absl::Status CheckLayers(const ConfigReader& root, const Family& family, int64_t num_layers) {
  CANOPY_RETURN_IF_ERROR(root.CheckAbsentOr("use_sliding_window", false));
  if (family.sliding_windows == SlidingWindows::kAllLayers) {
    CANOPY_RETURN_IF_ERROR(root.CheckAbsentOr("sliding_window", nullptr));
  }
  const json* layer_types = root.Find("layer_types");
  if (layer_types == nullptr) {
    return absl::OkStatus();
  }
  if (!layer_types->is_array() || static_cast<int64_t>(layer_types->size()) != num_layers) {
    return root.Refuse("layer_types", *layer_types, absl::StrCat("a list of ", num_layers));
  }
  for (size_t i = 0; i < layer_types->size(); ++i) {
    if ((*layer_types)[i] != "full_attention") {
      return root.Refuse(absl::StrCat("layer_types[", i, "]"), (*layer_types)[i],
                         "\"full_attention\"");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckComputation(const ConfigReader& root) {
  CANOPY_RETURN_IF_ERROR(root.CheckAbsentOr("hidden_act", "silu"));
  CANOPY_RETURN_IF_ERROR(root.CheckAbsentOr("is_causal", true));
  CANOPY_RETURN_IF_ERROR(root.CheckAbsentOr("use_bidirectional_attention", false));
  CANOPY_RETURN_IF_ERROR(root.CheckAbsentOr("partial_rotary_factor", 1.0));
  CANOPY_RETURN_IF_ERROR(root.CheckAbsentOr("mlp_bias", false));
  return root.CheckAbsentOr("quantization_config", nullptr);
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
  CANOPY_RETURN_IF_ERROR(CheckLayers(root, *family, config.num_layers));
  CANOPY_ASSIGN_OR_RETURN(config.rope, ReadRopeConfig(root, config.max_position_embeddings));
  CANOPY_RETURN_IF_ERROR(root.ReadOptionalBool("tie_word_embeddings", &config.tie_word_embeddings));
  if (config.head == ModelHead::kClassifier) {
    CANOPY_RETURN_IF_ERROR(ReadLabels(root, &config));
  }
  return config;
}

absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& path) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  const std::string file = is_folder ? absl::StrCat(path, "/config.json") : path;
  CANOPY_ASSIGN_OR_RETURN(const auto mapped, MappedFile::Open(file));
  absl::StatusOr<ModelConfig> config = ParseModelConfig(mapped->text());
  if (!config.ok()) {
    return absl::Status(config.status().code(),
                        absl::StrCat(file, ": ", config.status().message()));
  }
  return config;
}

}  // namespace canopy
