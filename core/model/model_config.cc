#include "core/model/model_config.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
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
constexpr double kMaxRopeTheta = 1e15;

// What transformers assumes for a classifier that says nothing.
constexpr int64_t kDefaultNumLabels = 2;

constexpr Architecture kArchitectures[] = {Architecture::kQwen3Model,
                                           Architecture::kQwen3ForCausalLM,
                                           Architecture::kQwen3ForSequenceClassification};

absl::Status Refuse(absl::string_view key, const json& value, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(key, ": ", DescribeJson(value), " is not supported; expected ", expected));
}

absl::Status Missing(absl::string_view key) {
  return absl::InvalidArgumentError(absl::StrCat(key, " is missing"));
}

// The value of `key`, or null when it is absent or JSON null, which mean the same in both dialects.
const json* FindValue(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

absl::Status ReadInteger(const json& root, const char* key, int64_t max, int64_t* target) {
  const json* value = FindValue(root, key);
  if (value == nullptr) {
    return Missing(key);
  }
  if (!value->is_number_unsigned() || value->get<uint64_t>() == 0 ||
      value->get<uint64_t>() > static_cast<uint64_t>(max)) {
    return Refuse(key, *value, absl::StrCat("an integer from 1 to ", max));
  }
  *target = value->get<int64_t>();
  return absl::OkStatus();
}

// Leaves `target` alone when the key is absent.
absl::Status ReadBool(const json& root, const char* key, bool* target) {
  if (const json* value = FindValue(root, key); value != nullptr) {
    if (!value->is_boolean()) {
      return Refuse(key, *value, "true or false");
    }
    *target = value->get<bool>();
  }
  return absl::OkStatus();
}

absl::Status CheckAbsentOr(const json& root, const char* key, const json& only) {
  const json* value = FindValue(root, key);
  if (value == nullptr || *value == only) {
    return absl::OkStatus();
  }
  return Refuse(key, *value, DescribeJson(only));
}

absl::Status ReadArchitecture(const json& root, Architecture* architecture) {
  const json* model_type = FindValue(root, "model_type");
  if (model_type == nullptr) {
    return Missing("model_type");
  }
  if (*model_type != "qwen3") {
    return Refuse("model_type", *model_type, "\"qwen3\"");
  }
  const json* names = FindValue(root, "architectures");
  if (names == nullptr) {
    return Missing("architectures");
  }
  if (names->is_array() && names->size() == 1 && names->front().is_string()) {
    const auto& name = names->front().get_ref<const std::string&>();
    for (const Architecture candidate : kArchitectures) {
      if (name == ArchitectureName(candidate)) {
        *architecture = candidate;
        return absl::OkStatus();
      }
    }
  }
  return Refuse("architectures", *names,
                "one of Qwen3Model, Qwen3ForCausalLM, Qwen3ForSequenceClassification");
}

absl::Status ReadSizes(const json& root, ModelConfig* config) {
  CANOPY_RETURN_IF_ERROR(ReadInteger(root, "vocab_size", kMaxVocabSize, &config->vocab_size));
  CANOPY_RETURN_IF_ERROR(ReadInteger(root, "hidden_size", kMaxHiddenSize, &config->hidden_size));
  CANOPY_RETURN_IF_ERROR(
      ReadInteger(root, "intermediate_size", kMaxIntermediateSize, &config->intermediate_size));
  CANOPY_RETURN_IF_ERROR(ReadInteger(root, "num_hidden_layers", kMaxLayers, &config->num_layers));
  CANOPY_RETURN_IF_ERROR(ReadInteger(root, "max_position_embeddings", kMaxPositions,
                                     &config->max_position_embeddings));
  return absl::OkStatus();
}

absl::Status ReadHeads(const json& root, ModelConfig* config) {
  CANOPY_RETURN_IF_ERROR(
      ReadInteger(root, "num_attention_heads", kMaxHeads, &config->num_query_heads));
  CANOPY_RETURN_IF_ERROR(
      ReadInteger(root, "num_key_value_heads", kMaxHeads, &config->num_kv_heads));
  if (config->num_query_heads % config->num_kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("num_attention_heads: ", config->num_query_heads,
                                                   " is not a multiple of num_key_value_heads ",
                                                   config->num_kv_heads));
  }
  if (FindValue(root, "head_dim") != nullptr) {
    CANOPY_RETURN_IF_ERROR(ReadInteger(root, "head_dim", kMaxHeadDim, &config->head_dim));
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

absl::Status CheckLayers(const json& root, int64_t num_layers) {
  CANOPY_RETURN_IF_ERROR(CheckAbsentOr(root, "use_sliding_window", false));
  const json* layer_types = FindValue(root, "layer_types");
  if (layer_types == nullptr) {
    return absl::OkStatus();
  }
  if (!layer_types->is_array() || static_cast<int64_t>(layer_types->size()) != num_layers) {
    return Refuse("layer_types", *layer_types, absl::StrCat("a list of ", num_layers));
  }
  for (size_t i = 0; i < layer_types->size(); ++i) {
    if ((*layer_types)[i] != "full_attention") {
      return Refuse(absl::StrCat("layer_types[", i, "]"), (*layer_types)[i], "\"full_attention\"");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckComputation(const json& root) {
  CANOPY_RETURN_IF_ERROR(CheckAbsentOr(root, "hidden_act", "silu"));
  CANOPY_RETURN_IF_ERROR(CheckAbsentOr(root, "is_causal", true));
  CANOPY_RETURN_IF_ERROR(CheckAbsentOr(root, "use_bidirectional_attention", false));
  CANOPY_RETURN_IF_ERROR(CheckAbsentOr(root, "partial_rotary_factor", 1.0));
  return CheckAbsentOr(root, "quantization_config", nullptr);
}

absl::Status ReadNumber(const json& value, absl::string_view name, double max, double* target) {
  if (!value.is_number() || !(value.get<double>() > 0.0) || value.get<double>() > max) {
    return Refuse(name, value, absl::StrCat("a number above 0 and up to ", max));
  }
  *target = value.get<double>();
  return absl::OkStatus();
}

// Checks one RoPE object and takes its rope_theta, if it has one.
absl::Status ReadRopeObject(const json& rope, absl::string_view name,
                            std::optional<double>* theta) {
  if (!rope.is_object()) {
    return Refuse(name, rope, "an object");
  }
  // First, so that a scaled type is named rather than one of its factors.
  for (const char* key : {"rope_type", "type"}) {
    if (const json* type = FindValue(rope, key); type != nullptr && *type != "default") {
      return Refuse(absl::StrCat(name, ".", key), *type, "\"default\"");
    }
  }
  for (const auto& [key, value] : rope.items()) {
    const std::string path = absl::StrCat(name, ".", key);
    if (key == "rope_theta") {
      CANOPY_RETURN_IF_ERROR(ReadNumber(value, path, kMaxRopeTheta, &theta->emplace()));
    } else if (key == "partial_rotary_factor") {
      if (value != 1.0) {
        return Refuse(path, value, "1.0");
      }
    } else if (key != "rope_type" && key != "type") {
      return Refuse(path, value, "only rope_theta and rope_type \"default\"");
    }
  }
  return absl::OkStatus();
}

absl::Status ReadRope(const json& root, ModelConfig* config) {
  std::optional<double> theta;
  if (const json* value = FindValue(root, "rope_theta"); value != nullptr) {
    CANOPY_RETURN_IF_ERROR(ReadNumber(*value, "rope_theta", kMaxRopeTheta, &theta.emplace()));
  }
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json* rope = FindValue(root, key);
    if (rope == nullptr) {
      continue;
    }
    std::optional<double> nested;
    CANOPY_RETURN_IF_ERROR(ReadRopeObject(*rope, key, &nested));
    if (nested.has_value() && theta.has_value() && *nested != *theta) {
      return absl::InvalidArgumentError(
          absl::StrCat(key, ".rope_theta: ", *nested, " contradicts rope_theta ", *theta));
    }
    if (nested.has_value()) {
      theta = nested;
    }
  }
  if (!theta.has_value()) {
    return Missing("rope_theta (or rope_parameters.rope_theta)");
  }
  config->rope_theta = *theta;
  return absl::OkStatus();
}

absl::Status ReadLabels(const json& root, ModelConfig* config) {
  std::optional<int64_t> named;
  if (const json* labels = FindValue(root, "id2label"); labels != nullptr) {
    const auto limit = static_cast<size_t>(kMaxLabels);
    if (!labels->is_object() || labels->empty() || labels->size() > limit) {
      return Refuse("id2label", *labels, absl::StrCat("an object of 1 to ", kMaxLabels));
    }
    named = static_cast<int64_t>(labels->size());
  }
  config->num_labels = named.value_or(kDefaultNumLabels);
  if (FindValue(root, "num_labels") != nullptr) {
    CANOPY_RETURN_IF_ERROR(ReadInteger(root, "num_labels", kMaxLabels, &config->num_labels));
    if (named.has_value() && *named != config->num_labels) {
      return absl::InvalidArgumentError(absl::StrCat(
          "num_labels: ", config->num_labels, " contradicts id2label with ", *named, " entries"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view ArchitectureName(Architecture architecture) {
  switch (architecture) {
    case Architecture::kQwen3Model:
      return "Qwen3Model";
    case Architecture::kQwen3ForCausalLM:
      return "Qwen3ForCausalLM";
    case Architecture::kQwen3ForSequenceClassification:
      return "Qwen3ForSequenceClassification";
  }
  return "";
}

absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view text) {
  CANOPY_ASSIGN_OR_RETURN(const json root, ParseStrictJson(text, JsonLimits{}));
  if (!root.is_object()) {
    return absl::InvalidArgumentError("the configuration is not a JSON object");
  }
  ModelConfig config;
  CANOPY_RETURN_IF_ERROR(ReadArchitecture(root, &config.architecture));
  CANOPY_RETURN_IF_ERROR(CheckComputation(root));
  CANOPY_RETURN_IF_ERROR(ReadSizes(root, &config));
  CANOPY_RETURN_IF_ERROR(ReadHeads(root, &config));
  CANOPY_RETURN_IF_ERROR(CheckLayers(root, config.num_layers));
  CANOPY_RETURN_IF_ERROR(ReadRope(root, &config));
  const json* eps = FindValue(root, "rms_norm_eps");
  if (eps == nullptr) {
    return Missing("rms_norm_eps");
  }
  CANOPY_RETURN_IF_ERROR(ReadNumber(*eps, "rms_norm_eps", kMaxRmsNormEps, &config.rms_norm_eps));
  CANOPY_RETURN_IF_ERROR(ReadBool(root, "tie_word_embeddings", &config.tie_word_embeddings));
  CANOPY_RETURN_IF_ERROR(ReadBool(root, "attention_bias", &config.attention_bias));
  if (config.architecture == Architecture::kQwen3ForSequenceClassification) {
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
