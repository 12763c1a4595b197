// How a sentence-transformers folder makes one vector of a text: its modules.json and the files
// that this names. Canopy pools by the last token only; what else a folder asks for is refused
// here.
#ifndef CORE_CHECKPOINT_FOLDER_POOLING_H_
#define CORE_CHECKPOINT_FOLDER_POOLING_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/checkpoint/folder_snapshot.h"

namespace canopy {

struct FolderPooling {
  // "last", "mean", "cls", "max", ...; several joined by '+'. Empty if the folder does not say.
  std::string mode;
  // A Normalize module: the folder's vectors have L2 norm 1.
  bool normalizes = false;
  // The folder's other modules that change a vector, as modules.json names their types.
  std::vector<std::string> other_modules;
  // Modules that change no vector and are ignored.
  std::vector<std::string> ignored_modules;
};

// Reads modules.json, or 1_Pooling/config.json in a folder without one. Returns an empty
// FolderPooling if the folder has neither. DATA_LOSS, naming the file, if a file is malformed, is
// missing although modules.json names it, or would lie outside the folder, or if there are more
// than 32 modules, a module's modes have more than 64 bytes, or its type or path has more than 256;
// errors of FolderSnapshot.
absl::StatusOr<FolderPooling> ReadFolderPooling(FolderSnapshot* folder);

// Returns FAILED_PRECONDITION, naming what differs and the flag that accepts it, if the folder's
// vectors are not those of the last token.
absl::Status CheckLastTokenPooling(const FolderPooling& pooling);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_FOLDER_POOLING_H_
