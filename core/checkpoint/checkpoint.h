// The tensors of a Hugging Face folder, read into memory.
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

// Who reads the tensors' bytes, and how often.
enum class TensorUse {
  kKeep,     // Bytes stay until the last copy of the source is gone.
  kRelease,  // WeightSource::Release gives a tensor's memory back once nobody needs it any more.
};

// A checkpoint whose headers are read and checked (see safetensors.h).
struct Checkpoint {
  WeightSource source;  // Names, types and shapes; zeros as bytes before ReadTensors.
  std::vector<std::shared_ptr<FileCopy>> files;

  int64_t file_bytes() const;
  // Reads everything else and closes each file as it is read. `folder` is what it was opened from.
  // Errors of FileCopy::ReadTo.
  absl::Status ReadTensors(const FolderSnapshot& folder) const;
};

// Opens `model.safetensors`, else `model.safetensors.index.json` with the shards that it names, and
// reads their headers.
//
// NOT_FOUND if both files are missing. DATA_LOSS, naming the file, if a file is malformed or no
// regular file, if a shard's name could leave the folder, and if the index and the shards disagree
// in either direction. Errors of FolderSnapshot::OpenFile.
absl::StatusOr<Checkpoint> OpenCheckpoint(FolderSnapshot* folder, TensorUse use = TensorUse::kKeep);

// Opens and reads the tensors of a folder that holds nothing else that matters, with the same
// errors. DATA_LOSS if the files change meanwhile.
absl::StatusOr<WeightSource> LoadCheckpoint(const std::string& folder);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_CHECKPOINT_H_
