// The weights of a Hugging Face folder, mapped read-only.
#ifndef CORE_MODEL_CHECKPOINT_H_
#define CORE_MODEL_CHECKPOINT_H_

#include <string>

#include "absl/status/statusor.h"
#include "core/model/weight_source.h"

namespace canopy {

// Opens `model.safetensors`, else `model.safetensors.index.json` with the shards that it names; the
// files stay mapped while the result or a copy of it lives. Headers are checked (see
// safetensors.h), data pages are read on first use.
//
// NOT_FOUND when the folder or both files are missing. DATA_LOSS, naming the file, when a file is
// malformed or no regular file, when a shard's name could leave the folder, and when the index and
// the shards disagree in either direction.
absl::StatusOr<WeightSource> OpenCheckpoint(const std::string& folder);

}  // namespace canopy

#endif  // CORE_MODEL_CHECKPOINT_H_
