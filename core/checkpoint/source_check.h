// Explains what a user named as a model if it is not a checkpoint folder, and what to do about it.
// It looks only at names, file types and first bytes; the code that opens the files checks their
// contents. First bytes are used only to explain an error that reading has already returned. A file
// that is not read, such as a shard of another download, may contain anything.
#ifndef CORE_CHECKPOINT_SOURCE_CHECK_H_
#define CORE_CHECKPOINT_SOURCE_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace canopy {

// Returns OK if the names in `source` look like a folder with a configuration and weights in
// safetensors files. Otherwise returns a one-line error that says what is there and what to do:
// NOT_FOUND if something is missing, INVALID_ARGUMENT if `source` is not a folder or holds another
// format, and the error of FileError if it cannot be read. If `needs_config` is true, the folder
// must contain config.json.
absl::Status CheckModelSource(const std::string& source, bool needs_config);

// Returns DATA_LOSS with an explanation if `status` is the error (NOT_FOUND, INVALID_ARGUMENT or
// DATA_LOSS) of reading a file of `folder`, and the file is of another kind than its name suggests.
// Otherwise returns `status`.
absl::Status ExplainReadError(const std::string& folder, const absl::Status& status);

// Returns what a file that starts with these bytes is, such as "a Git LFS pointer", and what to do.
// Returns an empty string if the bytes are not recognized. `first_bytes` are at most the first 512
// bytes.
std::string ExplainFirstBytes(absl::string_view first_bytes);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_SOURCE_CHECK_H_
