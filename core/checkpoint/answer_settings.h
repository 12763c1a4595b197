// The settings beside the tensors that change an answer, in the form that the fingerprint hashes.
// docs/WEIGHTS.md gives the recipe, and tests/fingerprint follows it in Python.
#ifndef CORE_CHECKPOINT_ANSWER_SETTINGS_H_
#define CORE_CHECKPOINT_ANSWER_SETTINGS_H_

#include <map>
#include <optional>
#include <string>

#include "core/checkpoint/head_settings.h"
#include "core/checkpoint/model_config.h"

namespace canopy {

// Everything that a model is made of except its tensors. How it is computed (dtype, device,
// backend, threads) is no part of it.
struct AnswerSettings {
  ModelConfig config;
  bool has_decision_head = false;  // Which replaces the head that the config names.
  bool lacks_lm_head = false;      // The config names a head that the tensors lack.
  DecisionTemperatures temperatures;
  std::optional<RerankerTokens> reranker;  // In effect: the flags' tokens, or else the folder's.
};

// Returns the settings by name, without those that have their default value: a default that is
// written out makes no difference, and a setting that is added later leaves other models alone.
// Integers are decimal; numbers are the 16 hexadecimal digits of their float64; a list of layers is
// the sorted numbers of those that have the property, with commas.
std::map<std::string, std::string> NonDefaultSettings(const AnswerSettings& settings);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_ANSWER_SETTINGS_H_
