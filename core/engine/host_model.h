// A model as its files describe it, checked, before anything of it is on the device.
#ifndef CORE_ENGINE_HOST_MODEL_H_
#define CORE_ENGINE_HOST_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/engine/torch_runner.h"
#include "core/model/head_settings.h"
#include "core/model/model_config.h"
#include "core/model/weight_schema.h"

namespace canopy {

struct HostModel {
  ModelConfig config;
  WeightMap weights;
  std::string vocabulary_hash;
  DecisionTemperatures temperatures;
  std::optional<RerankerTokens> reranker;
};

// Reads, or makes, and checks the weights that `options` name: that they fit the memory, before any
// tensor is read; that they are those of the configuration; that they are finite. They are to go to
// `device` ("cpu" or "cuda:N") with elements of `element_bytes`. Errors as of LoadTorchRunner.
absl::StatusOr<HostModel> OpenHostModel(const TorchRunnerOptions& options, absl::string_view device,
                                        int64_t element_bytes);

// A decision head's weights stand on the backbone alone, whatever its config names.
inline bool HasLanguageModelHead(const HostModel& model) {
  return model.config.head == ModelHead::kLanguageModel && !model.weights.has_decision_head;
}

// An error once nobody wants the model any more.
absl::Status CheckWanted(const TorchRunnerOptions& options);

}  // namespace canopy

#endif  // CORE_ENGINE_HOST_MODEL_H_
