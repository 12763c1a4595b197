// Reads how a sentence-transformers folder computes the vector of a text, from its modules.json and
// the files that it names. Canopy only supports pooling of the last token; CheckLastTokenPooling
// refuses other folders.
#ifndef CORE_CHECKPOINT_FOLDER_POOLING_H_
#define CORE_CHECKPOINT_FOLDER_POOLING_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/checkpoint/folder_snapshot.h"

namespace canopy {

struct FolderPooling {
  // "last", "mean", "cls", "max", ...; several modes are joined by '+'. Empty if the folder does
  // not specify one.
  std::string mode;
  // True if there is a Normalize module: the folder's vectors have L2 norm 1.
  bool normalizes = false;
  // The folder's other modules that change a vector, by their types in modules.json.
  std::vector<std::string> other_modules;
  // The folder's modules that do not change a vector. They are ignored.
  std::vector<std::string> ignored_modules;
};

// Reads modules.json, or 1_Pooling/config.json if the folder has no modules.json. Returns an empty
// FolderPooling if the folder has neither file.
//
// Returns DATA_LOSS, naming the file, if a file is malformed, if modules.json names a file that is
// missing or outside the folder, and if a limit is exceeded: 32 modules, 64 bytes for the modes of
// a module, 256 bytes for its type and for its path. Also returns the errors of FolderSnapshot.
absl::StatusOr<FolderPooling> ReadFolderPooling(FolderSnapshot* folder);

// Returns FAILED_PRECONDITION if the folder's vectors are not those of the last token. The message
// names the difference and the flag that accepts it.
absl::Status CheckLastTokenPooling(const FolderPooling& pooling);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_FOLDER_POOLING_H_
