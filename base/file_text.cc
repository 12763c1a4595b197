#include "base/file_text.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace canopy {
namespace {

constexpr size_t kChunkBytes = 16 << 10;

// `error` is the errno of the failed call; 0 = unknown.
absl::Status CannotRead(const std::string& path, int error) {
  return absl::InvalidArgumentError(absl::StrCat(
      "cannot read '", path, "'", error == 0 ? "" : absl::StrCat(": ", std::strerror(error))));
}

}  // namespace

absl::Status OpenForReading(const std::string& path, std::ifstream* file) {
  // Opening a folder succeeds, and its contents would look empty.
  struct stat info {};
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read '", path, "': it is a folder; name a file in it"));
  }
  errno = 0;
  file->open(path, std::ios::binary);
  return *file ? absl::OkStatus() : CannotRead(path, errno);
}

absl::StatusOr<std::string> ReadFileText(const std::string& path) {
  std::ifstream file;
  if (absl::Status status = OpenForReading(path, &file); !status.ok()) {
    return status;
  }
  std::string text;
  char chunk[kChunkBytes];
  errno = 0;
  // Unlike istreambuf_iterator, read() reports disk errors in the state of the stream.
  while (file.read(chunk, sizeof(chunk)) || file.gcount() > 0) {
    text.append(chunk, static_cast<size_t>(file.gcount()));
  }
  return file.bad() ? absl::StatusOr<std::string>(CannotRead(path, errno)) : text;
}

}  // namespace canopy
