#include "base/whole_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/base/attributes.h"
#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

namespace canopy {
namespace {

constexpr mode_t kNewFileMode = 0666;  // reduced by the umask
constexpr mode_t kModeBits = 07777;
// The limit on temporary names that are skipped because other, possibly killed, processes created
// them.
constexpr int kMaxNames = 1'000;
constexpr absl::Duration kLockPollInterval = absl::Milliseconds(10);

absl::Status Failed(absl::string_view what, const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", what, " '", path, "'"));
}

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// Returns 0 or the errno of the first failure. Closes `fd`.
int WriteAndClose(int fd, absl::string_view text, bool to_disk) {
  int error = 0;
  while (error == 0 && !text.empty()) {
    const ssize_t size = write(fd, text.data(), text.size());
    if (size >= 0) {
      text.remove_prefix(static_cast<size_t>(size));
    } else if (errno == EAGAIN) {
      // Another program may have set the inherited stdout to non-blocking mode.
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

// Creates a temporary file in the folder of `path`. Returns -1 and sets errno on failure.
int CreateBeside(const std::string& path, std::string* name) {
  static std::atomic<uint64_t> counter{0};
  for (int i = 0; i < kMaxNames; ++i) {
    *name = absl::StrCat(path, ".tmp.", getpid(), ".", counter.fetch_add(1));
    const int fd = open(name->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kNewFileMode);
    if (fd >= 0 || errno != EEXIST) {
      return fd;
    }
  }
  return -1;
}

// Syncs a rename to disk. Some file systems do not support this; the rename is done in any case.
void SyncFolder(const std::string& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    (void)fsync(fd);
    close(fd);
  }
}

// Returns 0 or the errno of the first failure. Leaves no temporary file after a failure.
int Replace(const std::string& path, std::optional<mode_t> mode, absl::string_view text) {
  std::string name;
  const int fd = CreateBeside(path, &name);
  if (fd < 0) {
    return errno;
  }
  const int mode_error = mode.has_value() && fchmod(fd, *mode & kModeBits) != 0 ? errno : 0;
  int error = WriteAndClose(fd, text, /*to_disk=*/true);
  if (error == 0) {
    error = mode_error;
  }
  if (error == 0 && std::rename(name.c_str(), path.c_str()) != 0) {
    error = errno;
  }
  if (error != 0) {
    (void)unlink(name.c_str());
    return error;
  }
  SyncFolder(FolderOf(path));
  return 0;
}

// Returns true if the file system does not allow replacing a file that may be writable itself: a
// mount point, or a file in a folder without write permission.
bool ForbidsReplacing(int error) {
  return error == EBUSY || error == EACCES || error == EPERM || error == EROFS;
}

// Returns the file that opening `path` for writing would create if no file exists yet: the target
// of a dangling symbolic link, or `path` itself.
std::string NewFileOf(const std::string& path) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::read_symlink(path, error);
  return error ? path : (std::filesystem::path(FolderOf(path)) / target).string();
}

absl::Status WriteStatus(const std::string& path, int error) {
  return error == 0 ? absl::OkStatus() : Failed("write", path, error);
}

// Returns the number of the open descriptor that `path` names, or -1 if it does not name one.
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

// Appends `text` to what the open descriptor has written. Opening its file again would start at
// offset 0.
absl::Status WriteToDescriptor(int descriptor, const std::string& path, absl::string_view text) {
  (void)std::fflush(stdout);
  const int fd = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) {
    return Failed("write", path, errno);
  }
  return WriteStatus(path, WriteAndClose(fd, text, /*to_disk=*/false));
}

absl::Status WriteInPlace(const std::string& path, absl::string_view text) {
  // With O_NONBLOCK, opening a pipe without a reader fails. Writing may then wait for the reader.
  const int fd = open(path.c_str(), O_WRONLY | O_TRUNC | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    return errno == ENXIO ? absl::UnavailableError(
                                absl::StrCat("cannot write '", path, "': nobody reads the pipe"))
                          : Failed("write", path, errno);
  }
  if (const int flags = fcntl(fd, F_GETFL); flags >= 0) {
    (void)fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
  }
  return WriteStatus(path, WriteAndClose(fd, text, /*to_disk=*/false));
}

absl::Status Write(const std::string& path, absl::string_view text, bool may_write_in_place) {
  if (const int descriptor = DescriptorOf(path); descriptor >= 0) {
    return WriteToDescriptor(descriptor, path, text);
  }
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0) {
    return WriteStatus(path,
                       errno == ENOENT ? Replace(NewFileOf(path), std::nullopt, text) : errno);
  }
  std::error_code no_target;
  const std::string target = std::filesystem::canonical(path, no_target).string();
  // A link below /proc may point to a file that no longer has a name.
  if (!S_ISREG(found.st_mode) || no_target || absl::StartsWith(path, "/dev/fd/") ||
      absl::StartsWith(path, "/proc/")) {
    return WriteInPlace(path, text);
  }
  const int error = Replace(target, found.st_mode, text);
  return may_write_in_place && ForbidsReplacing(error) ? WriteInPlace(path, text)
                                                       : WriteStatus(path, error);
}

}  // namespace

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t max_bytes) {
  // Without O_NONBLOCK, opening a pipe would block until another process writes to it.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    return Failed("open", path, errno);
  }
  const absl::Cleanup close_it = [fd = fd] { close(fd); };
  struct stat info = {};
  if (fstat(fd, &info) != 0) {
    return Failed("read", path, errno);
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat("'", path, "' is not a regular file"));
  }
  if (static_cast<uint64_t>(info.st_size) > max_bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", path, "': ", info.st_size, " bytes exceed the limit ", max_bytes));
  }
  std::string text(static_cast<size_t>(info.st_size), '\0');
  size_t num_read = 0;
  while (num_read < text.size()) {
    const ssize_t size = read(fd, &text[num_read], text.size() - num_read);
    if (size < 0 && errno != EINTR) {
      return Failed("read", path, errno);
    }
    if (size == 0) {
      break;  // the file was truncated
    }
    num_read += size < 0 ? 0 : static_cast<size_t>(size);
  }
  text.resize(num_read);
  return text;
}

absl::Status WriteWholeFile(const std::string& path, absl::string_view text) {
  return Write(path, text, /*may_write_in_place=*/false);
}

absl::Status WriteOutputFile(const std::string& path, absl::string_view text) {
  return Write(path, text, /*may_write_in_place=*/true);
}

absl::Status CheckOutputFile(const std::string& path) {
  if (DescriptorOf(path) >= 0) {
    return absl::OkStatus();
  }
  struct stat found = {};
  if (stat(path.c_str(), &found) == 0) {
    if (S_ISDIR(found.st_mode)) {
      return Failed("write", path, EISDIR);
    }
    return WriteStatus(path, access(path.c_str(), W_OK) == 0 ? 0 : errno);
  }
  const std::string folder = FolderOf(NewFileOf(path));
  return WriteStatus(path, access(folder.c_str(), W_OK | X_OK) == 0 ? 0 : errno);
}

absl::StatusOr<std::unique_ptr<FolderLock>> FolderLock::Acquire(const std::string& path,
                                                                absl::Duration timeout) {
  const std::string folder = FolderOf(path);
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    return Failed("lock", folder, errno);
  }
  auto lock = absl::WrapUnique(new FolderLock(fd));
  for (absl::Duration waited; flock(fd, LOCK_EX | LOCK_NB) != 0; waited += kLockPollInterval) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      break;
    }
    if (waited >= timeout) {
      return absl::DeadlineExceededError(absl::StrCat("cannot lock '", folder,
                                                      "': another process has held it for ",
                                                      absl::FormatDuration(timeout)));
    }
    absl::SleepFor(kLockPollInterval);
  }
  return lock;
}

FolderLock::~FolderLock() { close(fd_); }

}  // namespace canopy
