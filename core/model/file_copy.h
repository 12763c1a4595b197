// A file read into memory piece by piece: what happens to it afterwards, or meanwhile, cannot hurt.
// For checkpoints that are loaded while a server serves; MappedFile is for its start.
#ifndef CORE_MODEL_FILE_COPY_H_
#define CORE_MODEL_FILE_COPY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace canopy {

// An open file, for its opener to close.
struct RegularFile {
  int descriptor = -1;
  size_t size = 0;
};

// NOT_FOUND when there is no such file, INVALID_ARGUMENT when it is not a regular file, otherwise
// the code of the failed system call. Follows symbolic links.
absl::StatusOr<RegularFile> OpenRegularFile(const std::string& path);

// Thread-compatible.
class FileCopy {
 public:
  // Reserves the file's size in memory and reads nothing. Errors as of OpenRegularFile.
  static absl::StatusOr<std::shared_ptr<FileCopy>> Open(const std::string& path);

  FileCopy(const FileCopy&) = delete;
  FileCopy& operator=(const FileCopy&) = delete;
  ~FileCopy();

  // Reads what of the first `end` bytes (at most all) is not read yet, in steps before each of
  // which `check_wanted` (null = no question) may end it with its error. DATA_LOSS when the file
  // has become shorter than it was.
  absl::Status ReadTo(size_t end, const std::function<absl::Status()>& check_wanted = nullptr);

  // Of the whole size; zeros where nothing was read.
  absl::Span<const uint8_t> bytes() const { return {data_, size_}; }

 private:
  FileCopy(std::string path, int descriptor, uint8_t* data, size_t size)
      : path_(std::move(path)), descriptor_(descriptor), data_(data), size_(size) {}

  const std::string path_;
  const int descriptor_;
  uint8_t* const data_;  // null when the file is empty
  const size_t size_;
  size_t read_ = 0;
};

}  // namespace canopy

#endif  // CORE_MODEL_FILE_COPY_H_
