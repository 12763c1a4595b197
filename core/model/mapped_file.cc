#include "core/model/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace canopy {
namespace {

constexpr size_t kMostCopiedBytes = size_t{16} << 20;

}  // namespace

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  CANOPY_ASSIGN_OR_RETURN(const RegularFile file, OpenRegularFile(path));
  const auto closer = absl::MakeCleanup([&file] { close(file.descriptor); });
  if (file.size <= kMostCopiedBytes) {
    CANOPY_ASSIGN_OR_RETURN(std::shared_ptr<FileCopy> copy, FileCopy::Open(path));
    CANOPY_RETURN_IF_ERROR(copy->ReadTo(copy->bytes().size()));
    return std::shared_ptr<const MappedFile>(new MappedFile(std::move(copy)));
  }
  void* mapping = mmap(nullptr, file.size, PROT_READ, MAP_SHARED, file.descriptor, 0);
  if (mapping == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot map ", path));
  }
  return std::shared_ptr<const MappedFile>(
      new MappedFile(static_cast<const uint8_t*>(mapping), file.size));
}

MappedFile::~MappedFile() {
  if (copy_ == nullptr) {
    munmap(const_cast<uint8_t*>(data_), size_);
  }
}

}  // namespace canopy
