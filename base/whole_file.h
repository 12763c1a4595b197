// Replaces files as a whole, and locks folders in which several processes update files. Used for
// reports, port files and caches.
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

// Returns the contents of the regular file at `path`. Returns NOT_FOUND if there is no such file.
// Returns FAILED_PRECONDITION without reading if it is larger than `max_bytes`, or is a pipe, a
// device or a folder, which could block or never end. Otherwise returns the error of the failed
// system call.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t max_bytes);

// Writes `text` to the file at `path`, which need not exist. Readers see the old or the new
// contents and never a part, even after a crash: the text is written to a temporary file in the
// same folder, synced to disk, and renamed. The temporary file is removed if a step fails. Symbolic
// links are followed, and the mode of an existing file is kept.
//
// Files that are not regular, such as pipes, are written to and never replaced. A pipe without a
// reader is an error, so that the function does not block. Names of open descriptors, such as
// /dev/stdout and /dev/fd/3, stand for the descriptors: the text is appended after what they have
// written, even if they are regular files.
//
// Returns the error of the failed system call, with the path.
absl::Status WriteWholeFile(const std::string& path, absl::string_view text);

// Like WriteWholeFile, for files that a user names. If an existing file cannot be replaced, such as
// a bind-mounted file or a writable file in a folder without write permission, this function writes
// in place. A failure may then leave a part of the text.
absl::Status WriteOutputFile(const std::string& path, absl::string_view text);

// Returns the error that WriteOutputFile would probably return: a missing folder, a folder in place
// of a file, or no permission. Changes nothing. Call it before spending time on computing the text.
absl::Status CheckOutputFile(const std::string& path);

// Holds a lock on a folder until it is destroyed or its process exits. Other threads and processes
// of this host that lock the same folder wait. Leaves no file in the folder.
class FolderLock {
 public:
  // Waits until the folder of the file at `path` is unlocked, and locks it. Returns
  // DEADLINE_EXCEEDED after `timeout`, and other errors of the system calls. Some network file
  // systems do not support such locks: there it succeeds without a lock, so the last of two
  // simultaneous updates wins.
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
