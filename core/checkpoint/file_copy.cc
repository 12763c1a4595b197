#include "core/checkpoint/file_copy.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "core/checkpoint/helper_threads.h"

namespace canopy {
namespace {

size_t PageBytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

absl::Status FileError(int error_number, absl::string_view what, absl::string_view path) {
  const std::string message = absl::StrCat("cannot ", what, " ", path, ": ");
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:  // a component of the path is a file
      return absl::NotFoundError(message + "no such file");
    case ENOMEM:
      return absl::ResourceExhaustedError(message + "no memory");
    case EMFILE:
      return absl::UnavailableError(message + "the process has too many open files");
    case ENFILE:
      return absl::UnavailableError(message + "the machine has too many open files");
    default:
      return absl::DataLossError(message + std::generic_category().message(error_number));
  }
}

absl::StatusOr<std::shared_ptr<FileCopy>> FileCopy::Create(int descriptor, size_t size,
                                                           std::string path) {
  uint8_t* data = nullptr;
  if (size > 0) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      close(descriptor);
      return absl::ResourceExhaustedError(
          absl::StrCat("no room for the ", size, " bytes of ", path));
    }
    // Large pages avoid most of the page faults. The request is only a hint.
    (void)madvise(memory, size, MADV_HUGEPAGE);
    data = static_cast<uint8_t*>(memory);
  }
  std::shared_ptr<FileCopy> file(new FileCopy(std::move(path), descriptor, data, size));
  if (size == 0) {
    file->CloseFile();
  }
  return file;
}

FileCopy::~FileCopy() {
  CloseFile();
  if (data_ != nullptr) {
    munmap(data_, size_);
  }
}

void FileCopy::CloseFile() {
  if (descriptor_ >= 0) {
    close(descriptor_);
    descriptor_ = -1;
  }
}

absl::Status FileCopy::ReadTo(size_t end, const ReadOptions& options) {
  end = std::min(end, size_);
  while (read_ < end) {
    if (options.check_wanted) {
      CANOPY_RETURN_IF_ERROR(options.check_wanted());
    }
    CANOPY_RETURN_IF_ERROR(ReadStep(end, options));
  }
  if (read_ == size_) {
    CloseFile();
  }
  return absl::OkStatus();
}

// Reads one piece on each thread that the system can start. All pieces end at or before `end`.
absl::Status FileCopy::ReadStep(size_t end, const ReadOptions& options) {
  std::vector<std::future<absl::Status>> helpers;
  const size_t first_end = std::min(read_ + options.step_bytes, end);
  size_t begin = first_end;
  for (int i = 1; i < options.num_threads && begin < end; ++i) {
    const size_t piece_end = std::min(begin + options.step_bytes, end);
    auto helper = StartHelper([this, begin, piece_end] { return ReadPiece(begin, piece_end); });
    if (!helper.has_value()) {
      break;  // later steps read the rest
    }
    helpers.push_back(*std::move(helper));
    begin = piece_end;
  }
  absl::Status status = ReadPiece(read_, first_end);
  for (std::future<absl::Status>& helper : helpers) {
    status.Update(helper.get());
  }
  read_ = status.ok() ? begin : read_;
  return status;
}

absl::Status FileCopy::ReadPiece(size_t begin, size_t end) const {
  while (begin < end) {
    const ssize_t got = pread(descriptor_, data_ + begin, end - begin, static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return FileError(errno, "read", path_);
    }
    if (got == 0) {
      struct stat info = {};
      fstat(descriptor_, &info);
      return absl::DataLossError(absl::StrCat(path_, ": ends at byte ", info.st_size, " of ", size_,
                                              ": it was cut while it was read"));
    }
    begin += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

void FileCopy::Release(absl::Span<const uint8_t> bytes) const {
  // The memory starts at a page boundary, so whole pages start at multiples of the page size.
  const size_t page = PageBytes();
  const auto offset = static_cast<size_t>(bytes.data() - data_);
  const size_t begin = (offset + page - 1) / page * page;
  const size_t end = (offset + bytes.size()) / page * page;
  if (begin < end) {
    // The call cannot fail for private anonymous memory without locks. If it did, the memory would
    // only be released later.
    (void)madvise(data_ + begin, end - begin, MADV_DONTNEED);
  }
}

}  // namespace canopy
