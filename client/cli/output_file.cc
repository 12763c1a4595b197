#include "client/cli/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace canopy::client {
namespace {

constexpr mode_t kNewFileMode = 0666;  // less the umask
constexpr mode_t kModeBits = 07777;
// Names that another program's file has are skipped.
constexpr int kMaxNames = 1'000;

absl::Status Failed(const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot write '", path, "'"));
}

// 0 or the errno of the first failure. Closes `fd`.
int WriteAndClose(int fd, absl::string_view text, bool to_disk) {
  int error = 0;
  while (error == 0 && !text.empty()) {
    const ssize_t size = write(fd, text.data(), text.size());
    if (size >= 0) {
      text.remove_prefix(static_cast<size_t>(size));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == 0 && to_disk && fsync(fd) != 0) {
    error = errno;
  }
  if (close(fd) != 0 && error == 0) {
    error = errno;
  }
  return error;
}

// Opens a new file beside `path`; -1 and errno if that fails.
int CreateBeside(const std::string& path, std::string* name) {
  for (int i = 0; i < kMaxNames; ++i) {
    *name = absl::StrCat(path, ".tmp.", getpid(), ".", i);
    const int fd = open(name->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kNewFileMode);
    if (fd >= 0 || errno != EEXIST) {
      return fd;
    }
  }
  return -1;
}

absl::Status WriteInPlace(const std::string& path, absl::string_view text) {
  // With O_NONBLOCK a pipe without a reader is refused; what follows may wait for its reader.
  const int fd = open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    return Failed(path, errno);
  }
  if (const int flags = fcntl(fd, F_GETFL); flags >= 0) {
    (void)fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
  }
  const int error = WriteAndClose(fd, text, /*to_disk=*/false);
  return error == 0 ? absl::OkStatus() : Failed(path, error);
}

}  // namespace

absl::Status WriteOutputFile(const std::string& path, absl::string_view text) {
  struct stat found = {};
  const bool exists = stat(path.c_str(), &found) == 0;
  if (exists && !S_ISREG(found.st_mode)) {
    return WriteInPlace(path, text);
  }
  std::error_code ignored;
  // A link stays one.
  std::string target = exists ? std::filesystem::canonical(path, ignored).string() : path;
  target = target.empty() ? path : target;
  std::string name;
  const int fd = CreateBeside(target, &name);
  if (fd < 0) {
    return Failed(path, errno);
  }
  if (exists) {
    (void)fchmod(fd, found.st_mode & kModeBits);
  }
  int error = WriteAndClose(fd, text, /*to_disk=*/true);
  if (error == 0 && std::rename(name.c_str(), target.c_str()) != 0) {
    error = errno;
  }
  if (error != 0) {
    (void)unlink(name.c_str());
    return Failed(path, error);
  }
  return absl::OkStatus();
}

}  // namespace canopy::client
