// A whole file, mapped read-only: the one way in which this folder reads files.
#ifndef CORE_MODEL_MAPPED_FILE_H_
#define CORE_MODEL_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/model/file_copy.h"

namespace canopy {

// Immutable, safe to read from any thread. A large file must keep its length while mapped: pages
// cut off under the mapping kill the process, so replace checkpoints by renaming, never in place.
// Small ones (configurations) are copied, and may change at any time.
class MappedFile {
 public:
  // Errors as of OpenRegularFile; DATA_LOSS when a small file is cut while it is read.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(const std::string& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  absl::Span<const uint8_t> bytes() const { return {data_, size_}; }
  absl::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  MappedFile(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  explicit MappedFile(std::shared_ptr<const FileCopy> copy)
      : data_(copy->bytes().data()), size_(copy->bytes().size()), copy_(std::move(copy)) {}

  const uint8_t* const data_;  // Null when the file is empty.
  const size_t size_;
  const std::shared_ptr<const FileCopy> copy_;  // Null where it is mapped.
};

}  // namespace canopy

#endif  // CORE_MODEL_MAPPED_FILE_H_
