// Files that are written as a whole and updated by several processes: reports, ports, caches.
#ifndef BASE_WHOLE_FILE_H_
#define BASE_WHOLE_FILE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace canopy {

// Returns the content of the regular file at `path`. NOT_FOUND if there is no such file;
// FAILED_PRECONDITION if it is a pipe, a device or a folder, which might be waited for or have no
// end, or is larger than `max_bytes`, of which nothing is read; the error of the failed system call
// otherwise.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t max_bytes);

// Makes `text` the content of the file at `path`, which need not exist. Readers, and whoever looks
// after a crash, find the old content or the new one and never a part: the bytes are written to a
// file of their own in the same folder, brought to the disk, and renamed. That file is removed
// again if anything fails. A symbolic link is followed, and the mode of an existing file is kept.
//
// What is not a regular file, such as a pipe, is never replaced: it is written to. A pipe that
// nobody reads is an error rather than a reason to wait. The names of open descriptors, such as
// /dev/stdout and /dev/fd/3, stand for these: the text follows what they have written, also to a
// regular file.
//
// Returns the error of the failed system call, with the path.
absl::Status WriteWholeFile(const std::string& path, absl::string_view text);

// Does what WriteWholeFile does, for files that a user names. If an existing file cannot be
// replaced, such as a bind-mounted file or a writable file in a folder without write permission,
// this writes in place, and a failure may leave a part of the text.
absl::Status WriteOutputFile(const std::string& path, absl::string_view text);

// Returns the error that WriteOutputFile would most likely end with, before there is anything to
// write: a missing folder, a folder in place of a file, or no permission. Changes nothing.
absl::Status CheckOutputFile(const std::string& path);

// Keeps others that lock the same folder waiting, threads and processes of this host, until it is
// destroyed or its process ends. It leaves nothing in the folder.
class FolderLock {
 public:
  // Waits until the folder of the file at `path` is free. DEADLINE_EXCEEDED if that takes longer
  // than `timeout`; the error of a failed system call otherwise. Some network file systems have no
  // such locks: there it returns without one, and the last of two simultaneous updates remains.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Acquire(const std::string& path,
                                                             absl::Duration timeout);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  explicit FolderLock(int fd) : fd_(fd) {}

  const int fd_;
};

}  // namespace canopy

#endif  // BASE_WHOLE_FILE_H_
