#include "core/checkpoint/rope_config.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace canopy {
namespace {

using nlohmann::json;

constexpr double kMaxTheta = 1e15;
constexpr double kMaxFactor = 1e6;

struct RopeTypeInfo {
  RopeType type;
  const char* name;
  std::vector<absl::string_view> keys;  // in addition to rope_theta and the type
};

const std::vector<RopeTypeInfo>& RopeTypes() {
  static const auto* const types = new std::vector<RopeTypeInfo>{
      {RopeType::kDefault, "default", {}},
      {RopeType::kLinear, "linear", {"factor"}},
      {RopeType::kYarn,
       "yarn",
       {"factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow",
        "mscale", "mscale_all_dim", "truncate"}},
      {RopeType::kLlama3,
       "llama3",
       {"factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"}},
  };
  return *types;
}

// Reads `rope_type` or `type`, its older name. Both may be present if they are equal.
absl::StatusOr<const RopeTypeInfo*> ReadType(const ConfigReader& rope) {
  const json* type = rope.Find("rope_type");
  const json* old = rope.Find("type");
  if (type != nullptr && old != nullptr && *type != *old) {
    return rope.Refuse("type", *old, "the same as rope_type");
  }
  const char* key = type != nullptr ? "rope_type" : "type";
  const json value = type != nullptr ? *type : old != nullptr ? *old : json("default");
  std::vector<std::string> names;
  for (const RopeTypeInfo& info : RopeTypes()) {
    if (value == info.name) {
      return &info;
    }
    names.push_back(absl::StrCat("\"", info.name, "\""));
  }
  return rope.Refuse(key, value, absl::StrCat("one of ", absl::StrJoin(names, ", ")));
}

// Keys of published folders that transformers reads for no type: `attn_factor` is llama.cpp's name
// for a number that transformers computes itself, and `finetuned` describes how the model was made.
// `short_factor` and `long_factor` belong to a type that is not supported.
constexpr absl::string_view kUnreadKeys[] = {"attn_factor", "finetuned", "short_factor",
                                             "long_factor"};

bool Contains(const std::vector<absl::string_view>& keys, absl::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// Returns true if `key`, which this type does not have, is known to have no effect: transformers
// reads a key only for the types that have it. An unknown key may be misspelled, and a factor
// without a type would silently have no effect. Both are refused.
bool IsUnread(absl::string_view key, const RopeTypeInfo& info) {
  if (key == "factor" && info.type == RopeType::kDefault) {
    return false;
  }
  return std::any_of(RopeTypes().begin(), RopeTypes().end(),
                     [&](const RopeTypeInfo& other) { return Contains(other.keys, key); }) ||
         std::find(std::begin(kUnreadKeys), std::end(kUnreadKeys), key) != std::end(kUnreadKeys);
}

absl::Status CheckKeys(const ConfigReader& rope, const RopeTypeInfo& info,
                       std::vector<std::string>* ignored) {
  for (const auto& [key, value] : rope.object().items()) {
    const bool common = key == "rope_type" || key == "type" || key == "rope_theta";
    const bool is_read = Contains(info.keys, key);
    if (key == "partial_rotary_factor") {
      CANOPY_RETURN_IF_ERROR(rope.CheckAbsentOr("partial_rotary_factor", 1.0));
    } else if (!common && !is_read && IsUnread(key, info)) {
      ignored->push_back(absl::StrCat(rope.Path(key), " beside type \"", info.name, "\""));
    } else if (!common && !is_read) {
      return rope.Refuse(
          key, value,
          absl::StrCat("only rope_theta and what belongs to type \"", info.name, "\"",
                       info.keys.empty() ? "" : ": ", absl::StrJoin(info.keys, ", ")));
    }
  }
  return absl::OkStatus();
}

// Factors below 1 would shorten the range of positions and are refused.
absl::Status ReadFactor(const ConfigReader& rope, RopeConfig* config) {
  CANOPY_RETURN_IF_ERROR(rope.ReadNumber("factor", kMaxFactor, &config->factor));
  if (config->factor < 1.0) {
    return rope.Refuse("factor", config->factor, absl::StrCat("a number from 1 to ", kMaxFactor));
  }
  return absl::OkStatus();
}

// Returns the paper's temperature, 0.1 ln(factor) + 1, with the weight that some models add.
double YarnMagnitude(double factor, double weight) {
  return factor <= 1.0 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0;
}

absl::Status ReadYarn(const ConfigReader& rope, RopeConfig* config) {
  CANOPY_RETURN_IF_ERROR(rope.ReadOptionalNumber("beta_fast", kMaxFactor, &config->beta_fast));
  CANOPY_RETURN_IF_ERROR(rope.ReadOptionalNumber("beta_slow", kMaxFactor, &config->beta_slow));
  CANOPY_RETURN_IF_ERROR(rope.ReadOptionalBool("truncate", &config->truncate));
  if (config->beta_fast < config->beta_slow) {
    return rope.Refuse("beta_fast", config->beta_fast,
                       absl::StrCat("at least beta_slow ", config->beta_slow));
  }
  if (!(config->theta > 1.0)) {
    return rope.Refuse("rope_theta", config->theta, "more than 1 for type \"yarn\"");
  }
  double weight = 0.0;
  double weight_all_dimensions = 0.0;
  CANOPY_RETURN_IF_ERROR(rope.ReadOptionalNumber("mscale", kMaxFactor, &weight));
  CANOPY_RETURN_IF_ERROR(
      rope.ReadOptionalNumber("mscale_all_dim", kMaxFactor, &weight_all_dimensions));
  // The second weight is used only together with the first, as in transformers.
  config->attention_factor = weight > 0.0 && weight_all_dimensions > 0.0
                                 ? YarnMagnitude(config->factor, weight) /
                                       YarnMagnitude(config->factor, weight_all_dimensions)
                                 : YarnMagnitude(config->factor, 1.0);
  return rope.ReadOptionalNumber("attention_factor", kMaxFactor, &config->attention_factor);
}

absl::Status ReadLlama3(const ConfigReader& rope, RopeConfig* config) {
  CANOPY_RETURN_IF_ERROR(rope.ReadNumber("low_freq_factor", kMaxFactor, &config->low_freq_factor));
  CANOPY_RETURN_IF_ERROR(
      rope.ReadNumber("high_freq_factor", kMaxFactor, &config->high_freq_factor));
  if (config->high_freq_factor <= config->low_freq_factor) {
    return rope.Refuse("high_freq_factor", config->high_freq_factor,
                       absl::StrCat("more than low_freq_factor ", config->low_freq_factor));
  }
  return absl::OkStatus();
}

absl::Status ReadScaling(const ConfigReader& root, const ConfigReader& rope, RopeConfig* config) {
  if (config->type == RopeType::kDefault) {
    return absl::OkStatus();
  }
  CANOPY_RETURN_IF_ERROR(ReadFactor(rope, config));
  if (config->type == RopeType::kLinear) {
    return absl::OkStatus();
  }
  constexpr char kOriginal[] = "original_max_position_embeddings";
  int64_t outer = 0;
  CANOPY_RETURN_IF_ERROR(root.ReadOptionalInteger(kOriginal, kMaxPositions, &outer));
  int64_t inner = outer;
  CANOPY_RETURN_IF_ERROR(rope.ReadOptionalInteger(kOriginal, kMaxPositions, &inner));
  if (outer > 0 && outer != inner) {
    return rope.Refuse(kOriginal, inner, absl::StrCat("the outer ", kOriginal, " ", outer));
  }
  if (inner > 0) {
    config->original_max_position_embeddings = inner;
  }
  return config->type == RopeType::kYarn ? ReadYarn(rope, config) : ReadLlama3(rope, config);
}

// Returns the object that describes scaling, in either dialect, or an empty object if there is
// none.
absl::StatusOr<ConfigReader> FindRope(const ConfigReader& root) {
  static const auto* const kNone = new json(json::object());
  const json* scaling = root.Find("rope_scaling");
  const json* parameters = root.Find("rope_parameters");
  if (scaling != nullptr && parameters != nullptr && *scaling != *parameters) {
    return root.Refuse("rope_scaling", *scaling, "either rope_parameters or rope_scaling");
  }
  const char* name = scaling != nullptr ? "rope_scaling" : "rope_parameters";
  const json* rope = scaling != nullptr ? scaling : parameters != nullptr ? parameters : kNone;
  if (!rope->is_object()) {
    return root.Refuse(name, *rope, "an object");
  }
  return ConfigReader(*rope, name);
}

}  // namespace

absl::StatusOr<RopeConfig> ReadRopeConfig(const ConfigReader& root, const RopeDefaults& defaults,
                                          std::vector<std::string>* ignored) {
  CANOPY_ASSIGN_OR_RETURN(const ConfigReader rope, FindRope(root));
  // The type is read first, so that an unknown type is reported rather than one of its keys.
  CANOPY_ASSIGN_OR_RETURN(const RopeTypeInfo* info, ReadType(rope));
  CANOPY_RETURN_IF_ERROR(CheckKeys(rope, *info, ignored));
  RopeConfig config;
  config.type = info->type;
  // Only these types read the length, and the fingerprint covers only settings that are read.
  if (info->type == RopeType::kYarn || info->type == RopeType::kLlama3) {
    config.original_max_position_embeddings = defaults.max_position_embeddings;
  }
  double outer = 0.0;
  CANOPY_RETURN_IF_ERROR(root.ReadOptionalNumber("rope_theta", kMaxTheta, &outer));
  config.theta = outer;
  CANOPY_RETURN_IF_ERROR(rope.ReadOptionalNumber("rope_theta", kMaxTheta, &config.theta));
  if (outer > 0.0 && outer != config.theta) {
    return rope.Refuse("rope_theta", config.theta, absl::StrCat("the outer rope_theta ", outer));
  }
  if (config.theta == 0.0) {
    config.theta = defaults.theta;
  }
  if (config.theta == 0.0) {
    return root.Missing("rope_theta (or rope_parameters.rope_theta)");
  }
  CANOPY_RETURN_IF_ERROR(ReadScaling(root, rope, &config));
  return config;
}

int64_t LongestPath(const RopeConfig& rope, int64_t max_position_embeddings) {
  int64_t before = 0;
  switch (rope.type) {
    case RopeType::kDefault:
    case RopeType::kLlama3:
      return max_position_embeddings;
    case RopeType::kLinear:
      before = max_position_embeddings;
      break;
    case RopeType::kYarn:
      before = rope.original_max_position_embeddings;
      break;
  }
  const double after = std::floor(rope.factor * static_cast<double>(before));
  const auto limit = static_cast<double>(kMaxPositions);
  return std::max(max_position_embeddings, static_cast<int64_t>(std::min(after, limit)));
}

}  // namespace canopy
