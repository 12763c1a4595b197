// A checked model in host memory with its fingerprint, read from a Hugging Face folder or generated
// at random. A server loads every model through this file, at its start and later; so does `canopy
// fingerprint`. Does not use LibTorch.
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

// The prefix of a source that names a config.json whose weights are generated at random.
inline constexpr absl::string_view kSyntheticPrefix = "synthetic:";

struct HostModel {
  ModelConfig config;
  // The decoder releases each tensor's memory after copying it: see WeightSource::Release.
  WeightMap weights;
  std::string vocabulary_hash;  // hash of tokenizer.json; empty if there is none
  DecisionTemperatures temperatures;
  std::optional<RerankerTokens> reranker;
  std::string fingerprint;
  FolderPooling pooling;
};

// The memory that a model needs.
struct WeightMemory {
  int64_t elements = 0;          // number of elements to upload to the device
  int64_t largest_elements = 0;  // number of elements of the largest tensor
  int64_t largest_bytes = 0;     // stored bytes of the largest tensor
  int64_t host_bytes = 0;        // bytes in host memory that were read or generated
  bool is_released = false;      // true = host memory is released tensor by tensor
};

struct HostModelOptions {
  std::string source;                      // a Hugging Face folder, or synthetic:CONFIG.json
  std::string config;                      // a config.json from elsewhere; empty = the folder's own
  std::optional<RerankerTokens> reranker;  // unset = the tokens of the folder's reranker.json
  // If true, vectors of the last token are used even if the folder pools in another way or adds a
  // layer. If false, such a folder is refused.
  bool force_last_token_pooling = false;
  ReadOptions reading;  // its threads are also used for hashing
  // Returns an error if there is not enough memory. Called before any tensor is read. Null = no
  // check.
  std::function<absl::Status(const WeightMemory&)> check_room;
};

// Reads all files of the folder in the state of one instant (see
// core/checkpoint/folder_snapshot.h), so that they belong to one checkpoint. Computes the
// fingerprint from the bytes in memory. Host memory holds the weights only once.
//
// Returns
// - INVALID_ARGUMENT for an unsupported config, and for reranker tokens without a language model;
// - NOT_FOUND if the folder, its config or its weights are missing;
// - DATA_LOSS for a bad checkpoint, and for one that changes during the read;
// - RESOURCE_EXHAUSTED if memory is short;
// - UNAVAILABLE if too many files are open;
// - FAILED_PRECONDITION if the folder's vectors are not those of the last token, unless
//   force_last_token_pooling is set;
// - the errors of reading.check_wanted and check_room.
absl::StatusOr<HostModel> ReadHostModel(const HostModelOptions& options);

// Returns true if the model can compute log-probs. A typed-decision model cannot, whatever its
// config names, nor can a language model whose folder lacks its own lm_head.weight.
inline bool HasLanguageModelHead(const HostModel& model) {
  return model.config.head == ModelHead::kLanguageModel && !model.weights.has_decision_head &&
         !model.weights.lacks_lm_head;
}

}  // namespace canopy

#endif  // CORE_CHECKPOINT_HOST_MODEL_H_
