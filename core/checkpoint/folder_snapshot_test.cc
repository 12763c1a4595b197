#include "core/checkpoint/folder_snapshot.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "core/checkpoint/testing/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMaxBytes = 1'000;

FolderSnapshot SnapshotOf(const TemporaryFolder& folder) {
  return *FolderSnapshot::Open(folder.path());
}

// Overwrites the start of a file with `text`. The size and the inode stay the same.
void Overwrite(const std::string& path, absl::string_view text) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  EXPECT_TRUE(file.good()) << path;
}

TEST(FolderSnapshotTest, ReadsWhatIsThereAndSaysWhatIsNot) {
  const TemporaryFolder folder;
  folder.Write("a", "text");
  folder.Write("empty", "");
  FolderSnapshot snapshot = SnapshotOf(folder);
  EXPECT_EQ(*snapshot.ReadText("a", kMaxBytes), "text");
  EXPECT_EQ(*snapshot.ReadText("empty", kMaxBytes), "");
  const absl::Status missing = snapshot.ReadText("b", kMaxBytes).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr(folder.Join("b")));
  EXPECT_TRUE(snapshot.CheckUnchanged().ok()) << snapshot.CheckUnchanged();
}

TEST(FolderSnapshotTest, ALinkToTheFolderIsResolvedOnce) {
  const TemporaryFolder first;
  const TemporaryFolder second;
  const TemporaryFolder root;
  first.Write("a", "first");
  second.Write("a", "second");
  std::filesystem::create_directory_symlink(first.path(), root.Join("latest"));
  auto snapshot = FolderSnapshot::Open(root.Join("latest"));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  std::filesystem::create_directory_symlink(second.path(), root.Join("next"));
  std::filesystem::rename(root.Join("next"), root.Join("latest"));
  EXPECT_EQ(*snapshot->ReadText("a", kMaxBytes), "first");
  EXPECT_TRUE(snapshot->CheckUnchanged().ok());
}

// A change by another process to the file "a", which contains "text", or to the missing file "b".
struct Change {
  const char* name;
  std::function<void(const TemporaryFolder&)> make;
  const char* said;
};

const std::vector<Change>& Changes() {
  static const auto* const changes = new std::vector<Change>{
      {"overwritten in place", [](const TemporaryFolder& f) { Overwrite(f.Join("a"), "next"); },
       "/a was written to or touched"},
      {"overwritten with the same bytes",
       [](const TemporaryFolder& f) { Overwrite(f.Join("a"), "text"); },
       "/a was written to or touched"},
      {"overwritten, and its time put back",
       [](const TemporaryFolder& f) {
         struct stat info = {};
         ASSERT_EQ(stat(f.Join("a").c_str(), &info), 0);
         Overwrite(f.Join("a"), "next");
         const timespec times[] = {info.st_atim, info.st_mtim};
         ASSERT_EQ(utimensat(AT_FDCWD, f.Join("a").c_str(), times, 0), 0);
       },
       "/a was written to or touched"},
      {"cut", [](const TemporaryFolder& f) { std::filesystem::resize_file(f.Join("a"), 1); },
       "/a was written to or touched"},
      {"extended", [](const TemporaryFolder& f) { std::filesystem::resize_file(f.Join("a"), 9); },
       "/a was written to or touched"},
      {"replaced",
       [](const TemporaryFolder& f) {
         f.Write("a.tmp", "text");
         std::filesystem::rename(f.Join("a.tmp"), f.Join("a"));
       },
       "/a was replaced by another file"},
      {"removed", [](const TemporaryFolder& f) { std::filesystem::remove(f.Join("a")); },
       "/a was removed or renamed"},
      {"a file that was missing", [](const TemporaryFolder& f) { f.Write("b", ""); },
       "/b was put there"},
  };
  return *changes;
}

TEST(FolderSnapshotTest, EveryChangeAfterAFileIsOpenedIsSeen) {
  for (const Change& change : Changes()) {
    const TemporaryFolder folder;
    folder.Write("a", "text");
    FolderSnapshot snapshot = SnapshotOf(folder);
    EXPECT_TRUE(absl::IsNotFound(snapshot.OpenFile("b").status()));
    ASSERT_TRUE(snapshot.OpenFile("a").ok());
    ASSERT_TRUE(snapshot.CheckUnchanged().ok());
    // Without the wait in OpenFile, this change would often fall into the tick of the file's ctime.
    change.make(folder);
    const absl::Status status = snapshot.CheckUnchanged();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << change.name;
    EXPECT_THAT(status.message(), HasSubstr(folder.path() + change.said)) << change.name;
    EXPECT_THAT(status.message(), HasSubstr("load it again"));
  }
}

// A file is written, then opened and overwritten at once. This is repeated many times, because a
// tick of the kernel's clock may pass in between.
TEST(FolderSnapshotTest, AWriteInTheTickOfTheLastOneIsSeen) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    const TemporaryFolder folder;
    const std::string path = folder.Write("a", "text");
    FolderSnapshot snapshot = SnapshotOf(folder);
    const auto file = snapshot.OpenFile("a");
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(snapshot.Read(file->get(), 4).ok());
    Overwrite(path, "next");
    EXPECT_TRUE(absl::IsDataLoss(snapshot.CheckUnchanged())) << attempt;
  }
}

TEST(FolderSnapshotTest, AFileThatIsWrittenAllTheTimeIsRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("a", "text");
  int asked = 0;
  ReadOptions options;
  options.check_wanted = [&] {
    ++asked;
    Overwrite(path, "next");
    return absl::OkStatus();
  };
  auto snapshot = FolderSnapshot::Open(folder.path(), options);
  ASSERT_TRUE(snapshot.ok());
  const absl::Status status = snapshot->OpenFile("a").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(status.message(), HasSubstr(path + " is being written"));
  EXPECT_GT(asked, 10);
}

TEST(FolderSnapshotTest, StopsWhileItWaitsAndWhileItReads) {
  const TemporaryFolder folder;
  folder.Write("a", "text");
  int asked = 0;
  int stop = 0;
  ReadOptions options;
  options.step_bytes = 1;
  options.check_wanted = [&] {
    return ++asked == stop ? absl::CancelledError("gone") : absl::OkStatus();
  };
  auto snapshot = FolderSnapshot::Open(folder.path(), options);
  ASSERT_TRUE(snapshot.ok());
  EXPECT_EQ(*snapshot->ReadText("a", kMaxBytes), "text");
  const int steps = asked;
  EXPECT_GE(steps, 5) << "one to open, perhaps some to wait, four to read";
  for (stop = 1; stop <= steps; ++stop) {
    asked = 0;
    EXPECT_TRUE(absl::IsCancelled(snapshot->ReadText("a", kMaxBytes).status()) || asked < stop);
  }
}

TEST(FolderSnapshotTest, FilesAreBounded) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("a", "");
  // The sparse file has 400 GiB and is never read.
  ASSERT_EQ(truncate(path.c_str(), int64_t{400} << 30), 0);
  FolderSnapshot snapshot = SnapshotOf(folder);
  const absl::Status status = snapshot.ReadText("a", kMaxBytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr(path + ": 429496729600 bytes exceed 1000"));
}

TEST(FolderSnapshotTest, FailuresOfTheSystemNameTheFile) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("loop", folder.Join("loop"));
  std::filesystem::create_symlink("nowhere", folder.Join("dangling"));
  folder.Write("a", "text");
  std::filesystem::create_directory(folder.Join("sub"));
  FolderSnapshot snapshot = SnapshotOf(folder);
  const struct {
    const char* name;
    absl::StatusCode code;
    const char* text;
  } cases[] = {
      {"loop", absl::StatusCode::kDataLoss, "Too many levels of symbolic links"},
      {"dangling", absl::StatusCode::kDataLoss, "is a symbolic link to nothing"},
      {"sub", absl::StatusCode::kInvalidArgument, "is not a regular file"},
      {"none", absl::StatusCode::kNotFound, "no such file"},
  };
  for (const auto& item : cases) {
    const absl::Status status = snapshot.OpenFile(item.name).status();
    EXPECT_EQ(status.code(), item.code) << status;
    EXPECT_THAT(status.message(), HasSubstr(folder.Join(item.name)));
    EXPECT_THAT(status.message(), HasSubstr(item.text));
  }
  EXPECT_TRUE(absl::IsNotFound(FolderSnapshot::Open(folder.Join("none")).status()));
  EXPECT_TRUE(absl::IsNotFound(FolderSnapshot::Open(folder.Join("a")).status()));
  EXPECT_TRUE(absl::IsDataLoss(FolderSnapshot::Open(folder.Join("loop")).status()));
}

TEST(FolderSnapshotTest, TooManyOpenFilesAreSaidToBeThat) {
  const TemporaryFolder folder;
  folder.Write("a", "text");
  FolderSnapshot snapshot = SnapshotOf(folder);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status status = snapshot.OpenFile("a").status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(status.message(), HasSubstr(folder.Join("a") + ": the process has too many"));
  EXPECT_TRUE(snapshot.OpenFile("a").ok());
}

// These errors are tested by number, because root may read everything and disks rarely fail.
TEST(FileErrorTest, HasTheSystemsText) {
  EXPECT_EQ(FileError(EACCES, "open", "/x/a").message(), "cannot open /x/a: Permission denied");
  EXPECT_EQ(FileError(EACCES, "open", "/x/a").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(FileError(EIO, "read", "/x/a").message(), "cannot read /x/a: Input/output error");
  EXPECT_EQ(FileError(EIO, "read", "/x/a").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(FileError(ENFILE, "open", "/x/a").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(FileError(ENOTDIR, "open", "/x/a").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(FileError(ENOMEM, "open", "/x/a").code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace canopy
