// A file read into memory piece by piece. Whatever happens to the file afterwards, the bytes that
// were read stay what they are, and no access to them can fail.
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

// Returns an error once nobody wants what is being read, which ends the reading. Null = always
// wanted.
using WantedCheck = std::function<absl::Status()>;

// The bytes that are read, hashed or looked at between two questions of a WantedCheck: some
// milliseconds of work.
inline constexpr size_t kStepBytes = size_t{16} << 20;

// The error of a failed system call on `path`, with the system's text. NOT_FOUND if there is no
// such file, RESOURCE_EXHAUSTED if memory is short, UNAVAILABLE if too many files are open, and
// DATA_LOSS for everything else (no permission, a loop of links, a failing disk).
absl::Status FileError(int error_number, absl::string_view what, absl::string_view path);

struct ReadOptions {
  // Asked before each step, from the calling thread.
  WantedCheck check_wanted;
  size_t step_bytes = kStepBytes;  // That a thread reads at once; tests make it small.
  // Threads that share a step: copying out of the page cache to fresh memory takes one thread
  // longer than fast disks take. Fewer if the system gives no more.
  int num_threads = 1;
};

// Thread-compatible, except as Release says.
class FileCopy {
 public:
  // Takes `descriptor`, of a regular file of `size` bytes, even if it fails. Reserves memory and
  // reads nothing. `path` is for errors. RESOURCE_EXHAUSTED if there is no room.
  static absl::StatusOr<std::shared_ptr<FileCopy>> Create(int descriptor, size_t size,
                                                          std::string path);

  FileCopy(const FileCopy&) = delete;
  FileCopy& operator=(const FileCopy&) = delete;
  ~FileCopy();

  // Reads those of the first `end` bytes (at most all) that are not read yet. Closes the file once
  // all is read. DATA_LOSS if the file has become shorter; errors of FileError and check_wanted.
  absl::Status ReadTo(size_t end, const ReadOptions& options = {});

  // The whole size; zeros where nothing was read.
  absl::Span<const uint8_t> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // Gives the memory of `bytes`, a part of bytes(), back to the system, except what shares a page
  // with other bytes. Nobody may read them any more: they have become zeros. From any thread.
  void Release(absl::Span<const uint8_t> bytes) const;

 private:
  FileCopy(std::string path, int descriptor, uint8_t* data, size_t size)
      : path_(std::move(path)), descriptor_(descriptor), data_(data), size_(size) {}

  absl::Status ReadStep(size_t end, const ReadOptions& options);
  absl::Status ReadPiece(size_t begin, size_t end) const;
  void CloseFile();

  const std::string path_;
  int descriptor_;       // -1 once all is read
  uint8_t* const data_;  // null when the file is empty
  const size_t size_;
  size_t read_ = 0;
};

}  // namespace canopy

#endif  // CORE_CHECKPOINT_FILE_COPY_H_
