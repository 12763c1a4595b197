#include "core/checkpoint/folder_pooling.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "base/strict_json.h"

namespace canopy {
namespace {

using nlohmann::json;

constexpr int64_t kMaxFileBytes = 1 << 20;
constexpr JsonLimits kLimits = {kMaxFileBytes, 8, 10'000};
// Published folders have up to five modules. Names appear in errors and in answers, so they are
// limited: a class with its packages has up to 66 characters, and all the library's modes joined
// have 51.
constexpr size_t kMaxModules = 32;
constexpr size_t kMaxModeBytes = 64;
constexpr size_t kMaxTypeBytes = 256;
constexpr size_t kMaxPathBytes = 256;
constexpr char kModulesFile[] = "modules.json";
constexpr char kConfigFile[] = "config.json";
constexpr char kDefaultPoolingFolder[] = "1_Pooling";
constexpr absl::string_view kLibrary = "sentence_transformers.";

// The keys of a pooling configuration before version 5.4 of the library, and the names of the modes
// since then.
struct PoolingKey {
  const char* key;
  const char* mode;
  bool by_default;
};
constexpr PoolingKey kPoolingKeys[] = {
    {"pooling_mode_cls_token", "cls", false},
    {"pooling_mode_max_tokens", "max", false},
    {"pooling_mode_mean_tokens", "mean", true},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", false},
    {"pooling_mode_weightedmean_tokens", "weightedmean", false},
    {"pooling_mode_lasttoken", "last", false},
};

absl::Status BadFile(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": ", what));
}

// Returns nullopt if there is no such file.
absl::StatusOr<std::optional<json>> ReadJson(FolderSnapshot* folder, const std::string& name) {
  const absl::StatusOr<std::string> text = folder->ReadText(name, kMaxFileBytes);
  if (absl::IsNotFound(text.status())) {
    return std::nullopt;
  }
  CANOPY_RETURN_IF_ERROR(text.status());
  absl::StatusOr<json> document = ParseStrictJson(*text, kLimits);
  if (!document.ok()) {
    return BadFile(folder->PathOf(name), document.status().message());
  }
  return *std::move(document);
}

// Returns true if `text` consists of graphic ASCII characters, so that it fits into a line of text.
bool IsName(absl::string_view text, size_t max_bytes) {
  return !text.empty() && text.size() <= max_bytes &&
         std::all_of(text.begin(), text.end(), absl::ascii_isgraph);
}

std::string ModeName(const std::string& mode) { return mode == "lasttoken" ? "last" : mode; }

absl::StatusOr<std::string> ReadModeNames(const std::string& path, const json& value) {
  std::vector<std::string> modes;
  for (const json& mode : value.is_array() ? value : json::array({value})) {
    if (!mode.is_string() || !IsName(mode.get_ref<const std::string&>(), kMaxModeBytes)) {
      return BadFile(path, absl::StrCat("pooling_mode: ", DescribeJson(value),
                                        " is not a name of at most ", kMaxModeBytes, " bytes"));
    }
    modes.push_back(ModeName(mode.get<std::string>()));
  }
  std::string joined = absl::StrJoin(modes, "+");
  if (!IsName(joined, kMaxModeBytes)) {
    return BadFile(path, absl::StrCat("pooling_mode: ", DescribeJson(value), " joins names to ",
                                      joined.size(), " bytes, not to 1 to ", kMaxModeBytes));
  }
  return joined;
}

absl::StatusOr<std::string> ReadMode(const std::string& path, const json& config) {
  if (!config.is_object()) {
    return BadFile(path, "not a JSON object");
  }
  if (const auto mode = config.find("pooling_mode"); mode != config.end() && !mode->is_null()) {
    return ReadModeNames(path, *mode);
  }
  std::vector<std::string> modes;
  for (const PoolingKey& key : kPoolingKeys) {
    const auto value = config.find(key.key);
    if (value != config.end() && !value->is_boolean()) {
      return BadFile(path,
                     absl::StrCat(key.key, ": ", DescribeJson(*value), " is not true or false"));
    }
    if (value == config.end() ? key.by_default : value->get<bool>()) {
      modes.emplace_back(key.mode);
    }
  }
  return modes.empty() ? "none" : absl::StrJoin(modes, "+");
}

bool IsInside(const std::string& path) {
  return !path.empty() && path.size() <= kMaxPathBytes && path.front() != '/' &&
         !absl::StrContains(path, "..") && path.find('\0') == path.npos;
}

// Returns the string value of a module's key, or null if it has none.
const std::string* TextOf(const json& module, const char* key) {
  const auto value = module.is_object() ? module.find(key) : module.end();
  return module.is_object() && value != module.end() && value->is_string()
             ? value->get_ptr<const std::string*>()
             : nullptr;
}

absl::Status ReadPoolingModule(FolderSnapshot* folder, const std::string& path,
                               FolderPooling* pooling) {
  if (!IsInside(path)) {
    return BadFile(folder->PathOf(kModulesFile),
                   absl::StrCat("path ", DescribeJson(path),
                                " is not inside the folder, in at most ", kMaxPathBytes, " bytes"));
  }
  const std::string name = absl::StrCat(path, "/", kConfigFile);
  CANOPY_ASSIGN_OR_RETURN(const std::optional<json> config, ReadJson(folder, name));
  if (!config.has_value()) {
    return BadFile(folder->PathOf(name),
                   absl::StrCat("missing, although ", kModulesFile, " names it"));
  }
  CANOPY_ASSIGN_OR_RETURN(std::string mode, ReadMode(folder->PathOf(name), *config));
  pooling->mode = pooling->mode.empty() ? std::move(mode) : absl::StrCat(pooling->mode, "+", mode);
  return absl::OkStatus();
}

absl::Status ReadModule(FolderSnapshot* folder, const json& module, FolderPooling* pooling) {
  const std::string* type = TextOf(module, "type");
  const std::string* path = TextOf(module, "path");
  if (type == nullptr || path == nullptr) {
    return BadFile(folder->PathOf(kModulesFile),
                   absl::StrCat(DescribeJson(module), " has no type and path"));
  }
  if (!IsName(*type, kMaxTypeBytes)) {
    return BadFile(folder->PathOf(kModulesFile),
                   absl::StrCat("type ", DescribeJson(*type), " is not a name of at most ",
                                kMaxTypeBytes, " bytes"));
  }
  // A class of another package may have any name and behave in any way.
  const std::vector<absl::string_view> parts = absl::StrSplit(*type, '.');
  const absl::string_view name = absl::StartsWith(*type, kLibrary) ? parts.back() : "";
  if (name == "Transformer") {
    return absl::OkStatus();
  }
  if (name == "Pooling") {
    return ReadPoolingModule(folder, *path, pooling);
  }
  if (name == "Normalize") {
    pooling->normalizes = true;
  } else if (name == "Dropout" || name == "LogitScore") {
    pooling->ignored_modules.push_back(*type);
  } else {
    pooling->other_modules.push_back(*type);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FolderPooling> ReadFolderPooling(FolderSnapshot* folder) {
  CANOPY_ASSIGN_OR_RETURN(const std::optional<json> modules, ReadJson(folder, kModulesFile));
  FolderPooling pooling;
  if (!modules.has_value()) {
    const std::string name = absl::StrCat(kDefaultPoolingFolder, "/", kConfigFile);
    CANOPY_ASSIGN_OR_RETURN(const std::optional<json> config, ReadJson(folder, name));
    if (config.has_value()) {
      CANOPY_ASSIGN_OR_RETURN(pooling.mode, ReadMode(folder->PathOf(name), *config));
    }
    return pooling;
  }
  if (!modules->is_array()) {
    return BadFile(folder->PathOf(kModulesFile),
                   absl::StrCat(DescribeJson(*modules), " is not a list of modules"));
  }
  if (modules->size() > kMaxModules) {
    return BadFile(folder->PathOf(kModulesFile),
                   absl::StrCat(modules->size(), " modules exceed ", kMaxModules));
  }
  for (const json& module : *modules) {
    CANOPY_RETURN_IF_ERROR(ReadModule(folder, module, &pooling));
  }
  return pooling;
}

absl::Status CheckLastTokenPooling(const FolderPooling& pooling) {
  std::vector<std::string> differences;
  if (!pooling.mode.empty() && pooling.mode != "last") {
    differences.push_back(absl::StrCat("pools by \"", pooling.mode, "\""));
  }
  if (!pooling.other_modules.empty()) {
    differences.push_back(absl::StrCat("has the module",
                                       pooling.other_modules.size() > 1 ? "s" : "", " ",
                                       absl::StrJoin(pooling.other_modules, ", ")));
  }
  if (differences.empty()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the folder ", absl::StrJoin(differences, " and "), " (", kModulesFile,
      "), and the vectors here are those of the last token; --pooling=last serves them anyway"));
}

}  // namespace canopy
