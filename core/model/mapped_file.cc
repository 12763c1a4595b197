#include "core/model/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace canopy {
namespace {

absl::Status SystemError(int error_number, absl::string_view what, const std::string& path) {
  const std::string message = absl::StrCat("cannot ", what, " ", path);
  // ENOTDIR too: a component of the path is a file, so there is nothing at the path.
  if (error_number == ENOENT || error_number == ENOTDIR) {
    return absl::NotFoundError(absl::StrCat(message, ": no such file"));
  }
  return absl::ErrnoToStatus(error_number, message);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  // Without O_NONBLOCK a named pipe would block here for ever.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return SystemError(errno, "open", path);
  }
  const auto closer = absl::MakeCleanup([descriptor] { close(descriptor); });
  struct stat info = {};
  if (fstat(descriptor, &info) != 0) {
    return SystemError(errno, "stat", path);
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  }
  const auto size = static_cast<size_t>(info.st_size);
  const uint8_t* data = nullptr;
  if (size > 0) {
    void* mapping = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
    if (mapping == MAP_FAILED) {
      return SystemError(errno, "map", path);
    }
    data = static_cast<const uint8_t*>(mapping);
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(data, size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    munmap(const_cast<uint8_t*>(data_), size_);
  }
}

}  // namespace canopy
