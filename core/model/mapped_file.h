// A whole file, mapped read-only: the one way in which this folder reads files.
#ifndef CORE_MODEL_MAPPED_FILE_H_
#define CORE_MODEL_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace canopy {

// Immutable, safe to read from any thread. The file must keep its length while mapped: pages cut
// off under the mapping kill the process, so replace checkpoints by renaming, never in place.
class MappedFile {
 public:
  // NOT_FOUND when there is no such file, INVALID_ARGUMENT when it is not a regular file, otherwise
  // the code of the failed system call. Follows symbolic links.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(const std::string& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  absl::Span<const uint8_t> bytes() const { return {data_, size_}; }
  absl::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  MappedFile(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  const uint8_t* data_;  // Null when the file is empty.
  size_t size_;
};

}  // namespace canopy

#endif  // CORE_MODEL_MAPPED_FILE_H_
