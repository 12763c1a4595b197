// Files that the programs write for their user: reports and pictures.
//
// core/base/whole_file.h does the same for the server; a client is built without core.
#ifndef CLIENT_CLI_OUTPUT_FILE_H_
#define CLIENT_CLI_OUTPUT_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace canopy::client {

// Makes `text` the content of the file at `path`, which need not exist, by a rename: whatever
// fails, the old content stays whole and nothing else is left in the folder. What is not a regular
// file, such as /dev/stdout or a pipe, is written to; a pipe that nobody reads is an error. Returns
// the error of the failed system call, with the path.
absl::Status WriteOutputFile(const std::string& path, absl::string_view text);

}  // namespace canopy::client

#endif  // CLIENT_CLI_OUTPUT_FILE_H_
