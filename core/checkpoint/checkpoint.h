// Reads the tensors of a Hugging Face folder into memory.
#ifndef CORE_CHECKPOINT_CHECKPOINT_H_
#define CORE_CHECKPOINT_CHECKPOINT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/checkpoint/file_copy.h"
#include "core/checkpoint/folder_snapshot.h"
#include "core/checkpoint/weight_source.h"

namespace canopy {

// Decides how long the bytes of tensors stay in memory.
enum class TensorUse {
  kKeep,     // until the last copy of the source is destroyed
  kRelease,  // until WeightSource::Release is called for the tensor
};

// A checkpoint whose headers are read and checked (see safetensors.h).
struct Checkpoint {
  WeightSource source;  // names, types and shapes; bytes are zeros before ReadTensors
  std::vector<std::shared_ptr<FileCopy>> files;

  int64_t file_bytes() const;
  // Reads the tensors' bytes, and closes each file once it is read. `folder` must be the folder
  // that the checkpoint was opened from. Returns the errors of FileCopy::ReadTo.
  absl::Status ReadTensors(const FolderSnapshot& folder) const;
};

// Opens `model.safetensors` or, if it is missing, the shards named by
// `model.safetensors.index.json`, and reads their headers.
//
// Returns NOT_FOUND if both files are missing. Returns DATA_LOSS, naming the file, if a file is
// malformed or not a regular file, if the name of a shard could be outside the folder, or if the
// index and the shards do not list the same tensors. Also returns the errors of
// FolderSnapshot::OpenFile.
absl::StatusOr<Checkpoint> OpenCheckpoint(FolderSnapshot* folder, TensorUse use = TensorUse::kKeep);

// Opens and reads the tensors of a folder without its other files. Returns the errors of
// OpenCheckpoint and ReadTensors, and DATA_LOSS if the files change during the read.
absl::StatusOr<WeightSource> LoadCheckpoint(const std::string& folder);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_CHECKPOINT_H_
