#include "core/model/head_settings.h"

#include <map>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/model/mapped_file.h"
#include "core/model/strict_json.h"

namespace canopy {
namespace {

using nlohmann::json;

constexpr JsonLimits kLimits = {1 << 20, 8, 10'000};
constexpr double kMinTemperature = 0.05;
constexpr double kMaxTemperature = 20;

// The JSON object in a file; nothing when there is no such file.
absl::StatusOr<std::optional<json>> ReadObject(const std::string& path) {
  const auto file = MappedFile::Open(path);
  if (absl::IsNotFound(file.status())) {
    return std::nullopt;
  }
  CANOPY_RETURN_IF_ERROR(file.status());
  CANOPY_ASSIGN_OR_RETURN(json root, ParseStrictJson((*file)->text(), kLimits));
  if (!root.is_object()) {
    return absl::DataLossError(absl::StrCat(DescribeJson(root), " is not a JSON object"));
  }
  return root;
}

absl::StatusOr<double> ReadTemperature(const std::string& kind, const json& entry) {
  const auto temperature = entry.is_object() ? entry.find("temperature") : entry.end();
  if (!entry.is_object() || temperature == entry.end()) {
    return absl::DataLossError(
        absl::StrCat(kind, ": ", DescribeJson(entry), " is not {\"temperature\": t}"));
  }
  if (!temperature->is_number() || !(temperature->get<double>() >= kMinTemperature) ||
      !(temperature->get<double>() <= kMaxTemperature)) {
    return absl::DataLossError(absl::StrCat(kind, ".temperature: ", DescribeJson(*temperature),
                                            " is not a number from ", kMinTemperature, " to ",
                                            kMaxTemperature));
  }
  return temperature->get<double>();
}

absl::StatusOr<DecisionTemperatures> ReadTemperatures(const std::string& path) {
  DecisionTemperatures temperatures;
  CANOPY_ASSIGN_OR_RETURN(const std::optional<json> root, ReadObject(path));
  if (!root.has_value()) {
    return temperatures;
  }
  const std::map<std::string, double*> places = {{"boolean", &temperatures.boolean},
                                                 {"choice", &temperatures.choice},
                                                 {"score", &temperatures.score}};
  for (const auto& [kind, entry] : root->items()) {
    const auto place = places.find(kind);
    if (place == places.end()) {
      return absl::DataLossError(
          absl::StrCat(DescribeJson(kind), " is no kind of question: boolean, choice, score"));
    }
    CANOPY_ASSIGN_OR_RETURN(*place->second, ReadTemperature(kind, entry));
  }
  return temperatures;
}

absl::StatusOr<std::optional<RerankerTokens>> ReadRerankerTokens(const std::string& path) {
  CANOPY_ASSIGN_OR_RETURN(const std::optional<json> root, ReadObject(path));
  if (!root.has_value()) {
    return std::nullopt;
  }
  RerankerTokens tokens;
  const std::map<std::string, int64_t*> places = {{"yes_token", &tokens.yes},
                                                  {"no_token", &tokens.no}};
  for (const auto& [key, place] : places) {
    const auto value = root->find(key);
    if (root->size() != places.size() || value == root->end() || !value->is_number_unsigned()) {
      return absl::DataLossError(
          absl::StrCat(DescribeJson(*root), " is not {\"yes_token\": id, \"no_token\": id}"));
    }
    *place = value->get<int64_t>();
  }
  return tokens;
}

template <typename T>
absl::StatusOr<T> Named(const std::string& path, absl::StatusOr<T> value) {
  if (!value.ok()) {
    return absl::DataLossError(absl::StrCat(path, ": ", value.status().message()));
  }
  return value;
}

}  // namespace

absl::StatusOr<DecisionTemperatures> LoadTemperatures(const std::string& folder) {
  const std::string path = folder + "/temperatures.json";
  return Named(path, ReadTemperatures(path));
}

absl::StatusOr<std::optional<RerankerTokens>> LoadRerankerTokens(const std::string& folder) {
  const std::string path = folder + "/reranker.json";
  return Named(path, ReadRerankerTokens(path));
}

}  // namespace canopy
