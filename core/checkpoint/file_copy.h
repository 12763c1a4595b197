// Reads a file into memory piece by piece. Later changes to the file do not affect the bytes that
// were read, and reading them from memory cannot fail.
#ifndef CORE_CHECKPOINT_FILE_COPY_H_
#define CORE_CHECKPOINT_FILE_COPY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace canopy {

// Returns an error if the result of a long operation is no longer needed; the operation then stops
// with this error. Null = always needed.
using WantedCheck = std::function<absl::Status()>;

// The number of bytes that are read, hashed or checked between two calls of a WantedCheck. This
// takes some milliseconds.
inline constexpr size_t kStepBytes = size_t{16} << 20;

// Returns the error of a failed system call on `path`, with the system's text: NOT_FOUND if there
// is no such file, RESOURCE_EXHAUSTED if memory is short, UNAVAILABLE if too many files are open,
// and DATA_LOSS for every other error (no permission, a loop of links, a failing disk).
absl::Status FileError(int error_number, absl::string_view what, absl::string_view path);

struct ReadOptions {
  // Called before each step, from the calling thread.
  WantedCheck check_wanted;
  size_t step_bytes = kStepBytes;  // bytes that a thread reads at once; tests use small values
  // The number of threads that share a step. One thread copies from the page cache to fresh memory
  // more slowly than fast disks read. Fewer threads are used if the system cannot start them.
  int num_threads = 1;
};

// Thread-compatible, except for Release.
class FileCopy {
 public:
  // Reserves memory for a regular file of `size` bytes and reads nothing. Takes ownership of
  // `descriptor`, even on failure. `path` is used in errors. Returns RESOURCE_EXHAUSTED if there is
  // not enough memory.
  static absl::StatusOr<std::shared_ptr<FileCopy>> Create(int descriptor, size_t size,
                                                          std::string path);

  FileCopy(const FileCopy&) = delete;
  FileCopy& operator=(const FileCopy&) = delete;
  ~FileCopy();

  // Reads the first `end` bytes, except those that are already read. Closes the file once all of it
  // is read. Precondition: `end` is at most the size of the file. Returns DATA_LOSS if the file has
  // become shorter, and the errors of FileError and check_wanted.
  absl::Status ReadTo(size_t end, const ReadOptions& options = {});

  // Returns all bytes of the file. Bytes that are not read yet are zeros.
  absl::Span<const uint8_t> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // Returns the memory of `bytes`, a part of bytes(), to the system, except pages that are shared
  // with other bytes. The bytes become zeros and must not be read any more. Thread-safe.
  void Release(absl::Span<const uint8_t> bytes) const;

 private:
  FileCopy(std::string path, int descriptor, uint8_t* data, size_t size)
      : path_(std::move(path)), descriptor_(descriptor), data_(data), size_(size) {}

  absl::Status ReadStep(size_t end, const ReadOptions& options);
  absl::Status ReadPiece(size_t begin, size_t end) const;
  void CloseFile();

  const std::string path_;
  int descriptor_;       // -1 once the whole file is read
  uint8_t* const data_;  // null if the file is empty
  const size_t size_;
  size_t read_ = 0;
};

}  // namespace canopy

#endif  // CORE_CHECKPOINT_FILE_COPY_H_
