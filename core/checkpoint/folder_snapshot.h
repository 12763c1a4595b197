// Reads files of one folder so that all of them are as they were at one instant, whoever writes to
// the folder meanwhile.
//
// How a change is seen:
// 1. The folder's path is resolved once. Every file is opened once, by its name below the folder's
//    descriptor, so a symbolic link to the folder may move at any time.
// 2. A file's identity (device, inode, size, mtime and ctime in nanoseconds) is taken before its
//    first byte is read. Once all files are read, CheckUnchanged resolves every name again and
//    compares; a name that was absent must still be absent. So every file held exactly what was
//    read at the instant when the last one was opened.
// 3. The kernel cuts ctime to the ticks of its clock (at most 10 ms), so two writes in one tick
//    give the same ctime. Therefore a file is not read before 20 ms have passed since the instant
//    of its ctime, and it must have kept its identity until then: every write from then on gets
//    another ctime. Filesystems with whole seconds get 2 s. Time is counted from the ctimes
//    themselves, so the clock of a file server may differ from ours by up to a minute. Files that
//    changed over a minute ago, or will change in over a minute, by our clock, are read at once:
//    they are old, or their ctime was given by a wrong clock and would hide how late it is for the
//    others. Not covered, therefore: a file server whose clock differs by more than a minute. There
//    a second write in the tick of the ctime that was seen goes unnoticed if it comes while the
//    file is read.
// Nothing is mapped: a file that is cut gives an error, never a signal.
//
// Writes through a shared mapping may leave ctime alone, so they can be missed. The fingerprint is
// of the bytes in memory, which are those that go to the device, in that case too.
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

// What tells a file and its contents apart from others. Times are nanoseconds since 1970.
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
  // Files are read with `options`, whose check_wanted is also asked before each file and while one
  // is waited for. NOT_FOUND if there is no such folder; other errors of FileError.
  static absl::StatusOr<FolderSnapshot> Open(const std::string& folder, ReadOptions options = {});

  FolderSnapshot(FolderSnapshot&& other) noexcept;
  FolderSnapshot& operator=(FolderSnapshot&&) = delete;
  ~FolderSnapshot();

  // Opens a file and reads nothing of it. `name` is its path below the folder, such as
  // "config.json"; it may be a symbolic link.
  // NOT_FOUND if there is no such name, INVALID_ARGUMENT if it is not a regular file, DATA_LOSS if
  // it is a link to nothing or keeps being written, and errors of FileError and of check_wanted.
  absl::StatusOr<std::shared_ptr<FileCopy>> OpenFile(const std::string& name);

  // Reads a file of at most `max_bytes`. Errors of OpenFile, and DATA_LOSS if it is larger.
  absl::StatusOr<std::string> ReadText(const std::string& name, int64_t max_bytes);

  // Reads the next bytes of a file that OpenFile gave, as FileCopy::ReadTo.
  absl::Status Read(FileCopy* file, size_t end) const;

  // Call it when everything is read and before anything is used. DATA_LOSS, naming the file, unless
  // every file that was opened or missed is as it was.
  absl::Status CheckUnchanged() const;

  std::string PathOf(absl::string_view name) const;
  const std::string& folder() const { return folder_; }
  const WantedCheck& check_wanted() const { return options_.check_wanted; }

 private:
  // A name, and the file that was there.
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
  int descriptor_;  // -1 when moved from
  const ReadOptions options_;
  std::vector<Seen> seen_;
  // By the clock of the folder's filesystem, it is at least `known_ns_` + the time since
  // `known_at_`, which our own clock measures.
  int64_t known_ns_ = INT64_MIN;
  std::chrono::steady_clock::time_point known_at_;
};

}  // namespace canopy

#endif  // CORE_CHECKPOINT_FOLDER_SNAPSHOT_H_
