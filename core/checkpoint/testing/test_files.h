// Helpers for the tests of this folder: temporary folders, and safetensors files built from parts.
#ifndef CORE_CHECKPOINT_TESTING_TEST_FILES_H_
#define CORE_CHECKPOINT_TESTING_TEST_FILES_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace canopy {

// An empty folder that is deleted with its contents at the end of the scope.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string Join(absl::string_view name) const;
  // Returns the path of the file.
  std::string Write(absl::string_view name, absl::string_view contents) const;

 private:
  std::string path_;
};

// Prevents this process from starting threads until the end of the scope.
class NoNewThreads {
 public:
  NoNewThreads();
  ~NoNewThreads();
  NoNewThreads(const NoNewThreads&) = delete;
  NoNewThreads& operator=(const NoNewThreads&) = delete;

 private:
  size_t stack_bytes_ = 0;
};

// Returns a file with this header and data, which are not checked. The length field is correct.
std::string SafetensorsFile(absl::string_view header, absl::string_view data);

// Returns the header entry of a tensor, without the comma between entries.
std::string SafetensorsEntry(absl::string_view name, absl::string_view dtype,
                             absl::string_view shape, int64_t begin, int64_t end);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_TESTING_TEST_FILES_H_
