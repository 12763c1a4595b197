#include "core/checkpoint/head_settings.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "base/strict_json.h"

namespace canopy {
namespace {

using nlohmann::json;

constexpr char kTemperaturesFile[] = "temperatures.json";
constexpr char kRerankerFile[] = "reranker.json";
constexpr JsonLimits kLimits = {1 << 20, 8, 10'000};
constexpr double kMinTemperature = 0.05;
constexpr double kMaxTemperature = 20;

// Returns DATA_LOSS that names the file, for malformed contents.
absl::Status Named(const FolderSnapshot& folder, absl::string_view name,
                   const absl::Status& status) {
  return absl::DataLossError(absl::StrCat(folder.PathOf(name), ": ", status.message()));
}

// Returns the JSON object in a file, or nullopt if there is no such file.
absl::StatusOr<std::optional<json>> ReadObject(FolderSnapshot* folder, const std::string& name) {
  const absl::StatusOr<std::string> text = folder->ReadText(name, kLimits.max_bytes);
  if (absl::IsNotFound(text.status())) {
    return std::nullopt;
  }
  if (absl::IsInvalidArgument(text.status())) {
    return absl::DataLossError(text.status().message());
  }
  CANOPY_RETURN_IF_ERROR(text.status());
  absl::StatusOr<json> root = ParseStrictJson(*text, kLimits);
  if (root.ok() && !root->is_object()) {
    root = absl::DataLossError(absl::StrCat(DescribeJson(*root), " is not a JSON object"));
  }
  if (!root.ok()) {
    return Named(*folder, name, root.status());
  }
  return *std::move(root);
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

absl::StatusOr<DecisionTemperatures> ParseTemperatures(const std::optional<json>& root) {
  DecisionTemperatures temperatures;
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

absl::StatusOr<std::optional<RerankerTokens>> ParseRerankerTokens(const std::optional<json>& root) {
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

}  // namespace

absl::Status CheckRerankerTokens(const RerankerTokens& tokens, int64_t vocab_size) {
  for (const int64_t token : {tokens.yes, tokens.no}) {
    if (token < 0 || token >= vocab_size) {
      return absl::InvalidArgumentError(
          absl::StrCat("reranker token ", token, " is outside the vocabulary of ", vocab_size));
    }
  }
  if (tokens.yes == tokens.no) {
    return absl::InvalidArgumentError(
        absl::StrCat("reranker tokens: yes and no are both ", tokens.yes));
  }
  return absl::OkStatus();
}

absl::StatusOr<DecisionTemperatures> ReadTemperatures(FolderSnapshot* folder) {
  CANOPY_ASSIGN_OR_RETURN(const std::optional<json> root, ReadObject(folder, kTemperaturesFile));
  auto temperatures = ParseTemperatures(root);
  return temperatures.ok() ? temperatures
                           : Named(*folder, kTemperaturesFile, temperatures.status());
}

absl::StatusOr<std::optional<RerankerTokens>> ReadRerankerTokens(FolderSnapshot* folder) {
  CANOPY_ASSIGN_OR_RETURN(const std::optional<json> root, ReadObject(folder, kRerankerFile));
  auto tokens = ParseRerankerTokens(root);
  return tokens.ok() ? tokens : Named(*folder, kRerankerFile, tokens.status());
}

}  // namespace canopy
