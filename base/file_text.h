// Reads files, with errors that say why: what the system said, and what to do about it.
#ifndef BASE_FILE_TEXT_H_
#define BASE_FILE_TEXT_H_

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace canopy {

// Opens a file for reading. INVALID_ARGUMENT: `cannot read 'x': No such file or directory`; for a
// folder, that it is one.
absl::Status OpenForReading(const std::string& path, std::ifstream* file);

// Reads a file. Errors as above.
absl::StatusOr<std::string> ReadFileText(const std::string& path);

}  // namespace canopy

#endif  // BASE_FILE_TEXT_H_
