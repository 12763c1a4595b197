// Files that the programs write for their user: reports and pictures.
//
// base/whole_file.h does the same for the server; a client is built without core.
#ifndef CLIENT_CLI_OUTPUT_FILE_H_
#define CLIENT_CLI_OUTPUT_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace canopy::client {

// Makes `text` the content of the file at `path`, which need not exist, by a rename: whatever
// fails, the old content stays whole and nothing else is left in the folder. Symbolic links are
// followed. These are written in place, without that guarantee:
//   - an existing file that cannot be replaced, such as a bind-mounted file or a writable file in a
//     folder without write permission
//   - pipes and devices; a pipe that nobody reads is an error
//   - open descriptors, as /dev/stdout, /dev/stderr and /dev/fd/3: the text follows what they wrote
// Returns the error of the failed system call, with the path.
absl::Status WriteOutputFile(const std::string& path, absl::string_view text);

// Returns the error that WriteOutputFile would most likely end with, before there is anything to
// write: a missing folder, a folder in place of a file, or no permission. Changes nothing.
absl::Status CheckOutputFile(const std::string& path);

}  // namespace canopy::client

#endif  // CLIENT_CLI_OUTPUT_FILE_H_
