// Reads files that a user names. Errors give the system's reason and what to do about it.
#ifndef BASE_FILE_TEXT_H_
#define BASE_FILE_TEXT_H_

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace canopy {

// Opens a file for reading. Returns INVALID_ARGUMENT with a text such as `cannot read 'x': No such
// file or directory`. For a folder the text says that it is a folder.
absl::Status OpenForReading(const std::string& path, std::ifstream* file);

// Reads a file. Returns the errors of OpenForReading.
absl::StatusOr<std::string> ReadFileText(const std::string& path);

}  // namespace canopy

#endif  // BASE_FILE_TEXT_H_
