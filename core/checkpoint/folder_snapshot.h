// Reads files of one folder in the state that all of them had at one instant, even if other
// processes write to the folder at the same time.
//
// How changes are detected:
// 1. The folder's path is resolved once. Every file is opened once, by its name relative to the
//    folder's descriptor, so a symbolic link to the folder may be changed at any time.
// 2. A file's identity (device, inode, size, mtime and ctime in nanoseconds) is recorded before its
//    first byte is read. After all files are read, CheckUnchanged resolves every name again and
//    compares identities; a name that was absent must still be absent. So at the instant when the
//    last file was opened, every file had exactly the contents that were read.
// 3. The kernel rounds ctime down to the ticks of its clock (at most 10 ms), so two writes in one
//    tick have the same ctime. Therefore a file is read only if at least 20 ms have passed since
//    its ctime and its identity did not change until then: every later write gets another ctime. On
//    filesystems with whole seconds the wait is 2 s. The time is derived from the ctimes seen so
//    far and our steady clock, so the clock of a file server may differ from ours by up to a
//    minute.
// 4. A file whose ctime is more than a minute before or after our clock is read at once. Either it
//    is old, or a wrong clock has set its ctime, which then tells nothing about the other files. So
//    changes can be missed if the clock of a file server differs from ours by more than a minute: a
//    second write in the same tick as the recorded ctime goes unnoticed if it happens while the
//    file is read.
// Files are not mapped into memory, so a file that is truncated causes an error, not a signal.
//
// Writes through a shared mapping may not update ctime, so they can be missed. Even then the
// fingerprint is correct, because it is computed from the bytes in memory that are copied to the
// device.
#ifndef CORE_CHECKPOINT_FOLDER_SNAPSHOT_H_
#define CORE_CHECKPOINT_FOLDER_SNAPSHOT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/checkpoint/file_copy.h"

namespace canopy {

// Identifies a file and its contents. Times are nanoseconds since 1970.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t size = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;

  bool operator==(const FileIdentity& other) const;
  bool operator!=(const FileIdentity& other) const { return !(*this == other); }
};

// Thread-compatible.
class FolderSnapshot {
 public:
  // Opens a folder. Its files are read with `options`; check_wanted is also called before each file
  // and while waiting for one. Returns NOT_FOUND if there is no such folder, and the other errors
  // of FileError.
  static absl::StatusOr<FolderSnapshot> Open(const std::string& folder, ReadOptions options = {});

  FolderSnapshot(FolderSnapshot&& other) noexcept;
  FolderSnapshot& operator=(FolderSnapshot&&) = delete;
  ~FolderSnapshot();

  // Opens a file without reading it. `name` is its path relative to the folder, such as
  // "config.json"; it may be a symbolic link. Returns NOT_FOUND if the name does not exist,
  // INVALID_ARGUMENT if it is not a regular file, and DATA_LOSS if it is a dangling link or changes
  // all the time. Also returns the errors of FileError and check_wanted.
  absl::StatusOr<std::shared_ptr<FileCopy>> OpenFile(const std::string& name);

  // Reads a file of at most `max_bytes`. Returns the errors of OpenFile, and DATA_LOSS if the file
  // is larger.
  absl::StatusOr<std::string> ReadText(const std::string& name, int64_t max_bytes);

  // Reads the next bytes of a file opened by OpenFile, as FileCopy::ReadTo does.
  absl::Status Read(FileCopy* file, size_t end) const;

  // Returns DATA_LOSS, naming the file, unless every file that was opened or found missing is
  // unchanged. Call it after everything is read and before anything is used.
  absl::Status CheckUnchanged() const;

  std::string PathOf(absl::string_view name) const;
  const std::string& folder() const { return folder_; }
  const WantedCheck& check_wanted() const { return options_.check_wanted; }

 private:
  // A name, and the file that was there; nullopt = there was none.
  struct Seen {
    std::string name;
    std::optional<FileIdentity> identity;
  };

  FolderSnapshot(std::string folder, int descriptor, ReadOptions options)
      : folder_(std::move(folder)), descriptor_(descriptor), options_(std::move(options)) {}

  absl::Status NotThere(const std::string& name, int error_number);
  absl::StatusOr<FileIdentity> Settle(int descriptor, const std::string& name);
  int64_t NanosecondsToWait(const FileIdentity& identity);
  absl::Status CheckWanted() const;

  const std::string folder_;
  int descriptor_;  // -1 after a move
  const ReadOptions options_;
  std::vector<Seen> seen_;
  // A lower bound on the clock of the folder's filesystem: `known_ns_` + the time since `known_at_`
  // by our own steady clock.
  int64_t known_ns_ = INT64_MIN;
  std::chrono::steady_clock::time_point known_at_;
};

}  // namespace canopy

#endif  // CORE_CHECKPOINT_FOLDER_SNAPSHOT_H_
