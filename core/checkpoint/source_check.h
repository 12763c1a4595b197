// Says what the thing is that a user named as a model, if it is no checkpoint folder, and what to
// do about it. It looks at names, kinds and first bytes of files only: whoever opens them checks
// them. First bytes only make an error plainer that reading has given: a file that nobody reads,
// such as a shard of another download, may hold anything.
#ifndef CORE_CHECKPOINT_SOURCE_CHECK_H_
#define CORE_CHECKPOINT_SOURCE_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace canopy {

// Returns OK if `source` looks, by names, like a folder with a configuration and weights in
// safetensors files.
// Otherwise returns one line that names what is there and what to do: NOT_FOUND if something is
// missing, INVALID_ARGUMENT if `source` is something else than a folder or holds another format,
// the error of FileError if it cannot be read. `needs_config` = the folder must hold
// config.json.
absl::Status CheckModelSource(const std::string& source, bool needs_config);

// Returns DATA_LOSS that says what a file of `folder` is, if `status` is the error (NOT_FOUND,
// INVALID_ARGUMENT or DATA_LOSS) of reading it and it is not what its name says; otherwise
// `status`.
absl::Status ExplainReadError(const std::string& folder, const absl::Status& status);

// Returns what a file that starts with these bytes is, such as "a Git LFS pointer", and what to do,
// or an empty string if nothing is known about it. For the first 512 bytes or fewer.
std::string ExplainFirstBytes(absl::string_view first_bytes);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_SOURCE_CHECK_H_
