// The settings that change an answer although the tensors stay the same, in the form that the
// fingerprint hashes. docs/WEIGHTS.md gives the recipe, and tests/fingerprint implements it in
// Python.
#ifndef CORE_CHECKPOINT_ANSWER_SETTINGS_H_
#define CORE_CHECKPOINT_ANSWER_SETTINGS_H_

#include <map>
#include <optional>
#include <string>

#include "core/checkpoint/head_settings.h"
#include "core/checkpoint/model_config.h"

namespace canopy {

// Everything that defines a model except its tensors. The way in which it is computed (dtype,
// device, backend, threads) is not included.
struct AnswerSettings {
  ModelConfig config;
  bool has_decision_head = false;  // the decision head replaces the head named by the config
  bool lacks_lm_head = false;      // the config names a head that the tensors lack
  DecisionTemperatures temperatures;
  // the tokens in use: those of the flags, or else those of the folder
  std::optional<RerankerTokens> reranker;
};

// Returns the settings by name, without those that have their default value. A default that is
// written out therefore makes no difference, and a setting that is added later does not change the
// fingerprints of other models. Integers are decimal; numbers are the 16 hexadecimal digits of
// their float64; a list of layers is the sorted, comma-separated numbers of the layers that have
// the property.
std::map<std::string, std::string> NonDefaultSettings(const AnswerSettings& settings);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_ANSWER_SETTINGS_H_
