// The weights of a Hugging Face folder, mapped read-only.
#ifndef CORE_MODEL_CHECKPOINT_H_
#define CORE_MODEL_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/model/file_copy.h"
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

// A checkpoint in memory of this process: it stays what it was whatever happens to its files.
struct CheckpointCopy {
  WeightSource source;  // names, types and shapes; zeros as bytes before ReadTensors
  std::vector<std::shared_ptr<FileCopy>> files;

  int64_t file_bytes() const;
  // Errors as of FileCopy::ReadTo.
  absl::Status ReadTensors(const std::function<absl::Status()>& check_wanted) const;
};

// The same files and errors as of OpenCheckpoint, but only headers are read, and copied.
absl::StatusOr<CheckpointCopy> OpenCheckpointCopy(const std::string& folder);

}  // namespace canopy

#endif  // CORE_MODEL_CHECKPOINT_H_
