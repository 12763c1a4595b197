// A model in host memory, read from a Hugging Face folder or made at random, checked, and with its
// fingerprint. This is the one way in which a server gets a model, at its start and while it
// serves; `canopy fingerprint` takes it too. No LibTorch.
#ifndef CORE_CHECKPOINT_HOST_MODEL_H_
#define CORE_CHECKPOINT_HOST_MODEL_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/checkpoint/file_copy.h"
#include "core/checkpoint/folder_pooling.h"
#include "core/checkpoint/head_settings.h"
#include "core/checkpoint/model_config.h"
#include "core/checkpoint/weight_schema.h"

namespace canopy {

// The prefix of a source that names a config.json whose weights are to be made at random.
inline constexpr absl::string_view kSyntheticPrefix = "synthetic:";

struct HostModel {
  ModelConfig config;
  // The decoder gives each tensor's memory back as it copies it: see WeightSource::Release.
  WeightMap weights;
  std::string vocabulary_hash;  // Of tokenizer.json; empty without one.
  DecisionTemperatures temperatures;
  std::optional<RerankerTokens> reranker;
  std::string fingerprint;
  FolderPooling pooling;
};

// The memory that a model takes.
struct WeightMemory {
  int64_t elements = 0;          // That are uploaded to the device.
  int64_t largest_elements = 0;  // Of the largest tensor,
  int64_t largest_bytes = 0;     // and its bytes as stored.
  int64_t host_bytes = 0;        // Of what was read or made, in host memory.
  bool is_released = false;      // Whether host memory is given back tensor by tensor.
};

struct HostModelOptions {
  std::string source;  // A Hugging Face folder, or synthetic:CONFIG.json.
  std::string config;  // A config.json from elsewhere; empty = the folder's own.
  std::optional<RerankerTokens> reranker;  // Unset = what the folder's reranker.json says.
  // Takes the last token's vectors even if the folder pools otherwise or puts a layer behind them;
  // if false, such a folder is refused.
  bool force_last_token_pooling = false;
  ReadOptions reading;  // Its threads also hash.
  // Returns an error if there is no room. Asked before any tensor is read; null = there is.
  std::function<absl::Status(const WeightMemory&)> check_room;
};

// Reads all files of the folder as they were at one instant (core/checkpoint/folder_snapshot.h says
// how), so that they belong to one checkpoint, and computes the fingerprint over the bytes in
// memory. The host holds the weights once.
//
// INVALID_ARGUMENT for an unsupported config, and for reranker tokens without a language model;
// NOT_FOUND if the folder, its config or its weights are missing; DATA_LOSS for a bad checkpoint or
// one that changes while it is read; RESOURCE_EXHAUSTED if memory is short; UNAVAILABLE if too many
// files are open; FAILED_PRECONDITION for a folder whose vectors are not those of the last token,
// unless force_last_token_pooling; errors of reading.check_wanted and check_room.
absl::StatusOr<HostModel> ReadHostModel(const HostModelOptions& options);

// Returns whether the model gives log-probs. A typed-decision model does not, whatever its config
// names, nor does a language model whose folder lacks its own lm_head.weight.
inline bool HasLanguageModelHead(const HostModel& model) {
  return model.config.head == ModelHead::kLanguageModel && !model.weights.has_decision_head &&
         !model.weights.lacks_lm_head;
}

}  // namespace canopy

#endif  // CORE_CHECKPOINT_HOST_MODEL_H_
