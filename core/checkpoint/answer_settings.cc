#include "core/checkpoint/answer_settings.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "core/checkpoint/config_fields.h"

namespace canopy {
namespace {

using SettingMap = std::map<std::string, std::string>;

std::string Text(int64_t value) { return absl::StrCat(value); }

std::string Text(bool value) { return value ? "true" : "false"; }

std::string Text(double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return absl::StrCat(absl::Hex(bits, absl::kZeroPad16));
}

std::string Text(const std::vector<bool>& layers) {
  std::vector<size_t> numbers;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    if (layers[layer]) {
      numbers.push_back(layer);
    }
  }
  return absl::StrJoin(numbers, ",");
}

std::string Text(ModelHead head) {
  switch (head) {
    case ModelHead::kNone:
      return "none";
    case ModelHead::kLanguageModel:
      return "language_model";
    case ModelHead::kClassifier:
      return "classifier";
  }
  return "unknown";
}

std::string Text(RopeType type) {
  switch (type) {
    case RopeType::kDefault:
      return "default";
    case RopeType::kLinear:
      return "linear";
    case RopeType::kYarn:
      return "yarn";
    case RopeType::kLlama3:
      return "llama3";
  }
  return "unknown";
}

class SettingCollector {
 public:
  explicit SettingCollector(SettingMap* settings) : settings_(*settings) {}

  template <typename Value>
  void Setting(absl::string_view name, const Value& value) {
    settings_[std::string(name)] = Text(value);
  }

  template <typename Value>
  void InTensors(absl::string_view /*name*/, const Value& /*value*/) {}

 private:
  SettingMap& settings_;
};

SettingMap AllSettings(const AnswerSettings& settings) {
  const auto& [config, has_decision_head, lacks_lm_head, temperatures, reranker] = settings;
  SettingMap map;
  SettingCollector collector(&map);
  VisitFields(config, collector);
  if (has_decision_head) {
    map["head"] = "decision";
  } else if (lacks_lm_head) {
    map["head"] = Text(ModelHead::kNone);
  }
  const auto& [boolean, choice, score] = temperatures;
  collector.Setting("temperature.boolean", boolean);
  collector.Setting("temperature.choice", choice);
  collector.Setting("temperature.score", score);
  if (reranker.has_value()) {
    const auto& [yes, no] = *reranker;
    collector.Setting("reranker.yes_token", yes);
    collector.Setting("reranker.no_token", no);
  }
  return map;
}

}  // namespace

SettingMap NonDefaultSettings(const AnswerSettings& settings) {
  static const auto* const defaults = new SettingMap(AllSettings({}));
  SettingMap map = AllSettings(settings);
  for (const auto& [name, value] : *defaults) {
    if (const auto found = map.find(name); found != map.end() && found->second == value) {
      map.erase(found);
    }
  }
  return map;
}

}  // namespace canopy
