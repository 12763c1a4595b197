#include "client/cli/output_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

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
    } else if (errno == EAGAIN) {
      // Another program may have made the inherited stdout non-blocking.
      pollfd writable = {fd, POLLOUT, 0};
      (void)poll(&writable, 1, -1);
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

// Returns the number of the open descriptor that `path` names, or -1 if it names none.
int DescriptorOf(absl::string_view path) {
  if (path == "/dev/stdout") {
    return STDOUT_FILENO;
  }
  if (path == "/dev/stderr") {
    return STDERR_FILENO;
  }
  int fd = -1;
  if (!absl::ConsumePrefix(&path, "/dev/fd/") && !absl::ConsumePrefix(&path, "/proc/self/fd/")) {
    return -1;
  }
  return absl::SimpleAtoi(path, &fd) ? fd : -1;
}

// Returns true if the file system forbids replacing a file that may be writable itself: a file that
// is a mount point of its own, or a file in a folder without write permission.
bool ForbidsReplacing(int error) {
  return error == EBUSY || error == EACCES || error == EPERM || error == EROFS;
}

// Appends `text` to what the open descriptor has written: opening the file behind it a second time
// would start at offset 0 again.
absl::Status WriteToDescriptor(int descriptor, const std::string& path, absl::string_view text) {
  (void)std::fflush(stdout);
  const int fd = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) {
    return Failed(path, errno);
  }
  const int error = WriteAndClose(fd, text, /*to_disk=*/false);
  return error == 0 ? absl::OkStatus() : Failed(path, error);
}

absl::Status WriteInPlace(const std::string& path, absl::string_view text) {
  // With O_NONBLOCK a pipe without a reader is refused; what follows may wait for its reader.
  const int fd = open(path.c_str(), O_WRONLY | O_TRUNC | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    return Failed(path, errno);
  }
  if (const int flags = fcntl(fd, F_GETFL); flags >= 0) {
    (void)fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
  }
  const int error = WriteAndClose(fd, text, /*to_disk=*/false);
  return error == 0 ? absl::OkStatus() : Failed(path, error);
}

// Writes `text` to a new file with `mode`, or the default mode if that is 0, and renames it to
// `target`. Returns 0 or the errno of the first failure, after which no new file is left.
int Replace(const std::string& target, mode_t mode, absl::string_view text) {
  std::string name;
  const int fd = CreateBeside(target, &name);
  if (fd < 0) {
    return errno;
  }
  if (mode != 0) {
    (void)fchmod(fd, mode & kModeBits);
  }
  int error = WriteAndClose(fd, text, /*to_disk=*/true);
  if (error == 0 && std::rename(name.c_str(), target.c_str()) != 0) {
    error = errno;
  }
  if (error != 0) {
    (void)unlink(name.c_str());
  }
  return error;
}

// Returns the file that opening `path` for writing would create, where no file exists yet: the
// target of a dangling symbolic link, or `path` itself.
std::string NewFileOf(const std::string& path) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::read_symlink(path, error);
  return error ? path : (std::filesystem::path(path).parent_path() / target).string();
}

}  // namespace

absl::Status CheckOutputFile(const std::string& path) {
  if (DescriptorOf(path) >= 0) {
    return absl::OkStatus();
  }
  struct stat found = {};
  if (stat(path.c_str(), &found) == 0) {
    if (S_ISDIR(found.st_mode)) {
      return Failed(path, EISDIR);
    }
    return access(path.c_str(), W_OK) == 0 ? absl::OkStatus() : Failed(path, errno);
  }
  const std::string folder = std::filesystem::path(NewFileOf(path)).parent_path().string();
  const bool writable = access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) == 0;
  return writable ? absl::OkStatus() : Failed(path, errno);
}

absl::Status WriteOutputFile(const std::string& path, absl::string_view text) {
  if (const int descriptor = DescriptorOf(path); descriptor >= 0) {
    return WriteToDescriptor(descriptor, path, text);
  }
  struct stat found = {};
  const bool exists = stat(path.c_str(), &found) == 0;
  if (!exists) {
    const int error = Replace(NewFileOf(path), 0, text);
    return error == 0 ? absl::OkStatus() : Failed(path, error);
  }
  std::error_code no_target;
  const std::string target = std::filesystem::canonical(path, no_target).string();
  // The target of a link below /proc may have no name any more.
  if (!S_ISREG(found.st_mode) || no_target || absl::StartsWith(path, "/dev/fd/") ||
      absl::StartsWith(path, "/proc/")) {
    return WriteInPlace(path, text);
  }
  const int error = Replace(target, found.st_mode, text);
  if (ForbidsReplacing(error)) {
    return WriteInPlace(path, text);
  }
  return error == 0 ? absl::OkStatus() : Failed(path, error);
}

}  // namespace canopy::client
