// `canopy fingerprint`: computes the fingerprint of the model in a folder without a server. This is
// the only part of the client that includes core: it must compute exactly what a server does, and
// the code that reads checkpoints does not use LibTorch.
#ifndef CLIENT_CLI_FOLDER_FINGERPRINT_H_
#define CLIENT_CLI_FOLDER_FINGERPRINT_H_

#include <string>

#include "absl/status/statusor.h"

namespace canopy::client {

// Returns the fingerprint of a Hugging Face folder, or of synthetic:CONFIG.json, under the flags
// --config, --reranker_yes_token and --reranker_no_token. Holds the weights in memory meanwhile.
// Returns INVALID_ARGUMENT for wrong flags and unsupported configurations, NOT_FOUND for missing
// files, and DATA_LOSS for a bad checkpoint, or one that changes meanwhile.
absl::StatusOr<std::string> FolderFingerprint(const std::string& source);

}  // namespace canopy::client

#endif  // CLIENT_CLI_FOLDER_FINGERPRINT_H_
