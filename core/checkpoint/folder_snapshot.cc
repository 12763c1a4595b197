#include "core/checkpoint/folder_snapshot.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace canopy {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kQuiet = kSecond / 50;
constexpr int64_t kQuietOfWholeSeconds = 2 * kSecond;
// A file whose ctime is this long ago is read without a wait.
constexpr int64_t kLongAgo = 60 * kSecond;
constexpr int64_t kMostWaitBetweenChecks = kSecond / 200;
constexpr int kMostWaits = 50;

int64_t Nanoseconds(const timespec& time) { return int64_t{time.tv_sec} * kSecond + time.tv_nsec; }

int64_t WallClock() {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return Nanoseconds(now);
}

FileIdentity IdentityOf(const struct stat& info) {
  return {info.st_dev, info.st_ino, info.st_size, Nanoseconds(info.st_mtim),
          Nanoseconds(info.st_ctim)};
}

void Sleep(int64_t nanoseconds) {
  const timespec duration = {nanoseconds / kSecond, nanoseconds % kSecond};
  nanosleep(&duration, nullptr);
}

}  // namespace

bool FileIdentity::operator==(const FileIdentity& other) const {
  return device == other.device && inode == other.inode && size == other.size &&
         modified_ns == other.modified_ns && changed_ns == other.changed_ns;
}

absl::StatusOr<FolderSnapshot> FolderSnapshot::Open(const std::string& folder,
                                                    ReadOptions options) {
  const int descriptor = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    return FolderSnapshot(folder, descriptor, std::move(options));
  }
  if (errno == ENOENT || errno == ENOTDIR) {
    return absl::NotFoundError(absl::StrCat("no checkpoint folder ", folder));
  }
  return FileError(errno, "open", folder);
}

FolderSnapshot::FolderSnapshot(FolderSnapshot&& other) noexcept
    : folder_(other.folder_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      options_(other.options_),
      seen_(std::move(other.seen_)),
      known_ns_(other.known_ns_),
      known_at_(other.known_at_) {}

FolderSnapshot::~FolderSnapshot() {
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

std::string FolderSnapshot::PathOf(absl::string_view name) const {
  return absl::StrCat(folder_, "/", name);
}

absl::Status FolderSnapshot::CheckWanted() const {
  return options_.check_wanted ? options_.check_wanted() : absl::OkStatus();
}

// Most files of a folder are optional, but a dangling link means that its file should be there.
absl::Status FolderSnapshot::NotThere(const std::string& name, int error_number) {
  struct stat info = {};
  if (error_number == ENOENT &&
      fstatat(descriptor_, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
    return absl::DataLossError(absl::StrCat(PathOf(name),
                                            " is a symbolic link to nothing: copy the files that "
                                            "links point to as well"));
  }
  if (error_number == ENOENT) {
    seen_.push_back({name, std::nullopt});
  }
  return FileError(error_number, "open", PathOf(name));
}

absl::StatusOr<std::shared_ptr<FileCopy>> FolderSnapshot::OpenFile(const std::string& name) {
  CANOPY_RETURN_IF_ERROR(CheckWanted());
  // Without O_NONBLOCK, opening a named pipe without a writer would block forever.
  const int descriptor =
      openat(descriptor_, name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) {
    return NotThere(name, errno);
  }
  auto closer = absl::MakeCleanup([descriptor] { close(descriptor); });
  CANOPY_ASSIGN_OR_RETURN(const FileIdentity identity, Settle(descriptor, name));
  seen_.push_back({name, identity});
  std::move(closer).Cancel();
  return FileCopy::Create(descriptor, static_cast<size_t>(identity.size), PathOf(name));
}

absl::StatusOr<std::string> FolderSnapshot::ReadText(const std::string& name, int64_t max_bytes) {
  CANOPY_ASSIGN_OR_RETURN(const std::shared_ptr<FileCopy> file, OpenFile(name));
  const size_t size = file->bytes().size();
  if (size > static_cast<uint64_t>(max_bytes)) {
    return absl::DataLossError(
        absl::StrCat(PathOf(name), ": ", size, " bytes exceed ", max_bytes, " for such a file"));
  }
  CANOPY_RETURN_IF_ERROR(Read(file.get(), size));
  return std::string(reinterpret_cast<const char*>(file->bytes().data()), size);
}

absl::Status FolderSnapshot::Read(FileCopy* file, size_t end) const {
  return file->ReadTo(end, options_);
}

// Waits until the file's ctime is so old that every later write has another ctime, and returns the
// file's identity.
absl::StatusOr<FileIdentity> FolderSnapshot::Settle(int descriptor, const std::string& name) {
  for (int waits = 0; waits <= kMostWaits; ++waits) {
    struct stat info = {};
    if (fstat(descriptor, &info) != 0) {
      return FileError(errno, "stat", PathOf(name));
    }
    if (!S_ISREG(info.st_mode)) {
      return absl::InvalidArgumentError(absl::StrCat(PathOf(name), " is not a regular file"));
    }
    const FileIdentity identity = IdentityOf(info);
    int64_t wait = NanosecondsToWait(identity);
    if (wait <= 0) {
      return identity;
    }
    while (wait > 0) {
      CANOPY_RETURN_IF_ERROR(CheckWanted());
      const int64_t nap = std::min(wait, kMostWaitBetweenChecks);
      Sleep(nap);
      wait -= nap;
    }
  }
  return absl::DataLossError(absl::StrCat(PathOf(name), " is being written: it changed at each of ",
                                          kMostWaits, " looks at it"));
}

int64_t FolderSnapshot::NanosecondsToWait(const FileIdentity& identity) {
  const int64_t age = WallClock() - identity.changed_ns;
  if (age > kLongAgo || age < -kLongAgo) {
    return 0;
  }
  const auto now = std::chrono::steady_clock::now();
  if (known_ns_ != INT64_MIN) {
    known_ns_ += std::chrono::nanoseconds(now - known_at_).count();
  }
  known_ns_ = std::max(known_ns_, identity.changed_ns);
  known_at_ = now;
  const bool whole_seconds = identity.changed_ns % kSecond == 0;
  return identity.changed_ns + (whole_seconds ? kQuietOfWholeSeconds : kQuiet) - known_ns_;
}

absl::Status FolderSnapshot::CheckUnchanged() const {
  for (const Seen& seen : seen_) {
    struct stat info = {};
    const bool is_there = fstatat(descriptor_, seen.name.c_str(), &info, 0) == 0;
    if (!is_there && errno != ENOENT) {
      return FileError(errno, "stat", PathOf(seen.name));
    }
    const char* what = nullptr;
    if (!seen.identity.has_value()) {
      what = is_there ? "was put there" : nullptr;
    } else if (!is_there) {
      what = "was removed or renamed";
    } else if (const FileIdentity identity = IdentityOf(info); identity != *seen.identity) {
      what = identity.inode != seen.identity->inode || identity.device != seen.identity->device
                 ? "was replaced by another file"
                 : "was written to or touched";
    }
    if (what != nullptr) {
      return absl::DataLossError(absl::StrCat(PathOf(seen.name), " ", what,
                                              " while the checkpoint was read: load it again"));
    }
  }
  return absl::OkStatus();
}

}  // namespace canopy
