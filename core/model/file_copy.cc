#include "core/model/file_copy.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"

namespace canopy {
namespace {

constexpr size_t kStepBytes = size_t{16} << 20;

absl::Status SystemError(int error_number, absl::string_view what, const std::string& path) {
  const std::string message = absl::StrCat("cannot ", what, " ", path);
  // ENOTDIR too: a component of the path is a file, so there is nothing at the path.
  if (error_number == ENOENT || error_number == ENOTDIR) {
    return absl::NotFoundError(absl::StrCat(message, ": no such file"));
  }
  return absl::ErrnoToStatus(error_number, message);
}

}  // namespace

absl::StatusOr<RegularFile> OpenRegularFile(const std::string& path) {
  // Without O_NONBLOCK a named pipe would block here for ever.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return SystemError(errno, "open", path);
  }
  auto closer = absl::MakeCleanup([descriptor] { close(descriptor); });
  struct stat info = {};
  if (fstat(descriptor, &info) != 0) {
    return SystemError(errno, "stat", path);
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  }
  std::move(closer).Cancel();
  return RegularFile{descriptor, static_cast<size_t>(info.st_size)};
}

absl::StatusOr<std::shared_ptr<FileCopy>> FileCopy::Open(const std::string& path) {
  CANOPY_ASSIGN_OR_RETURN(const RegularFile file, OpenRegularFile(path));
  auto closer = absl::MakeCleanup([&file] { close(file.descriptor); });
  uint8_t* data = nullptr;
  if (file.size > 0) {
    void* memory = mmap(nullptr, file.size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no room for the ", file.size, " bytes of ", path));
    }
    data = static_cast<uint8_t*>(memory);
  }
  std::move(closer).Cancel();
  return std::shared_ptr<FileCopy>(new FileCopy(path, file.descriptor, data, file.size));
}

FileCopy::~FileCopy() {
  close(descriptor_);
  if (data_ != nullptr) {
    munmap(data_, size_);
  }
}

absl::Status FileCopy::ReadTo(size_t end, const std::function<absl::Status()>& check_wanted) {
  end = std::min(end, size_);
  while (read_ < end) {
    if (check_wanted) {
      CANOPY_RETURN_IF_ERROR(check_wanted());
    }
    const ssize_t got = pread(descriptor_, data_ + read_, std::min(kStepBytes, end - read_),
                              static_cast<off_t>(read_));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return SystemError(errno, "read", path_);
    }
    if (got == 0) {
      return absl::DataLossError(
          absl::StrCat(path_, ": ends at byte ", read_, " of ", size_, ": it changed meanwhile"));
    }
    read_ += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace canopy
