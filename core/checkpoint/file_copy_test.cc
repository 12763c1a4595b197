#include "core/checkpoint/file_copy.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "core/checkpoint/folder_snapshot.h"
#include "core/checkpoint/testing/test_files.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

std::string TextOf(const FileCopy& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

absl::StatusOr<std::shared_ptr<FileCopy>> OpenFile(const std::string& path) {
  const std::filesystem::path file = path;
  auto folder = FolderSnapshot::Open(file.parent_path());
  return folder.ok() ? folder->OpenFile(file.filename()) : folder.status();
}

ReadOptions Asking(WantedCheck check_wanted) {
  ReadOptions options;
  options.check_wanted = std::move(check_wanted);
  return options;
}

// Writes a sparse file of zeros.
std::string WriteZeros(const TemporaryFolder& folder, int64_t size) {
  std::string path = folder.Write("zeros", "");
  EXPECT_EQ(truncate(path.c_str(), size), 0);
  return path;
}

int64_t OpenDescriptors() {
  using Iterator = std::filesystem::directory_iterator;
  return std::distance(Iterator("/proc/self/fd"), Iterator());
}

int64_t MappedPages() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages;
}

TEST(FileCopyTest, ReadsAsFarAsItIsTold) {
  const TemporaryFolder folder;
  const auto file = OpenFile(folder.Write("file", "abcdef"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(TextOf(**file), std::string(6, '\0'));
  ASSERT_TRUE((*file)->ReadTo(2).ok());
  EXPECT_EQ(TextOf(**file), std::string("ab\0\0\0\0", 6));
  ASSERT_TRUE((*file)->ReadTo(100).ok());
  EXPECT_EQ(TextOf(**file), "abcdef");
}

TEST(FileCopyTest, KeepsWhatItHasReadAndReportsWhatIsGone) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("file", "abcdef");
  const auto file = OpenFile(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->ReadTo(2).ok());
  ASSERT_EQ(truncate(path.c_str(), 3), 0);
  const absl::Status status = (*file)->ReadTo(6);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "ends at byte 3 of 6")) << status;
  folder.Write("file", "xx");
  EXPECT_EQ(TextOf(**file), std::string("abc\0\0\0", 6));
}

TEST(FileCopyTest, StopsWhenNobodyWantsIt) {
  const TemporaryFolder folder;
  const auto file = OpenFile(folder.Write("file", "abcdef"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(
      absl::IsCancelled((*file)->ReadTo(6, Asking([] { return absl::CancelledError("gone"); }))));
  EXPECT_EQ(TextOf(**file), std::string(6, '\0'));
}

// The check runs before each 16 MiB, so that a long read ends soon. The bytes that were read stay.
TEST(FileCopyTest, AsksBeforeEachStepWhetherItIsWanted) {
  constexpr size_t kStep = size_t{16} << 20;
  const TemporaryFolder folder;
  const auto file = OpenFile(WriteZeros(folder, 2 * kStep + 1));
  ASSERT_TRUE(file.ok()) << file.status();
  int asked = 0;
  const auto count = [&asked] {
    ++asked;
    return absl::OkStatus();
  };
  EXPECT_TRUE((*file)->ReadTo(1, Asking(count)).ok());
  EXPECT_EQ(asked, 1);
  EXPECT_TRUE((*file)->ReadTo(2 * kStep + 1, Asking(count)).ok());
  EXPECT_EQ(asked, 3);
  EXPECT_TRUE((*file)->ReadTo(2 * kStep + 1, Asking(count)).ok());
  EXPECT_EQ(asked, 3) << "there is nothing left to read";
}

TEST(FileCopyTest, SeveralThreadsReadWhatOneDoes) {
  std::string text;
  for (int i = 0; i < 1'000; ++i) {
    text += static_cast<char>(i % 251);
  }
  const TemporaryFolder folder;
  const std::string path = folder.Write("file", text);
  for (const int threads : {1, 2, 5}) {
    for (const size_t step : {size_t{1}, size_t{7}, size_t{300}, size_t{2'000}}) {
      const auto file = OpenFile(path);
      ASSERT_TRUE(file.ok()) << file.status();
      ReadOptions options;
      options.num_threads = threads;
      options.step_bytes = step;
      ASSERT_TRUE((*file)->ReadTo(13, options).ok());
      EXPECT_EQ(TextOf(**file).substr(0, 13), text.substr(0, 13));
      ASSERT_TRUE((*file)->ReadTo(text.size(), options).ok());
      EXPECT_EQ(TextOf(**file), text);
    }
  }
  const auto file = OpenFile(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(truncate(path.c_str(), 3), 0);
  ReadOptions options;
  options.num_threads = 4;
  options.step_bytes = 100;
  const absl::Status status = (*file)->ReadTo(text.size(), options);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "ends at byte 3 of 1000")) << status;
}

TEST(FileCopyTest, ReadsAloneIfThereAreNoMoreThreads) {
  const std::string text(1'000, 'x');
  const TemporaryFolder folder;
  const auto file = OpenFile(folder.Write("file", text));
  ASSERT_TRUE(file.ok()) << file.status();
  ReadOptions options;
  options.num_threads = 5;
  options.step_bytes = 7;
  const NoNewThreads limit;
  EXPECT_THROW(std::thread([] {}).join(), std::system_error);
  EXPECT_TRUE((*file)->ReadTo(text.size(), options).ok());
  EXPECT_EQ(TextOf(**file), text);
}

TEST(FileCopyTest, GivesBackItsDescriptorAndItsMemory) {
  constexpr int64_t kSize = int64_t{1} << 30;
  const TemporaryFolder folder;
  const std::string path = WriteZeros(folder, kSize);
  const int64_t descriptors = OpenDescriptors();
  const int64_t pages = MappedPages();
  {
    const auto file = OpenFile(path);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(OpenDescriptors(), descriptors + 1);
    EXPECT_GE(MappedPages(), pages + kSize / getpagesize());
  }
  EXPECT_FALSE(OpenFile(folder.path()).ok());
  EXPECT_EQ(OpenDescriptors(), descriptors);
  EXPECT_LT(MappedPages(), pages + kSize / 2 / getpagesize());
}

// The pipe has no writer, so opening it without O_NONBLOCK would never return.
TEST(FileCopyTest, ANamedPipeIsRefusedAtOnce) {
  const TemporaryFolder folder;
  const std::string path = folder.Join("pipe");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(OpenFile(path).status()));
}

TEST(FileCopyTest, RefusesWhatIsNoFile) {
  const TemporaryFolder folder;
  EXPECT_TRUE(absl::IsNotFound(OpenFile(folder.Join("none")).status()));
  EXPECT_TRUE(absl::IsNotFound(OpenFile(folder.Write("file", "x") + "/below").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(OpenFile(folder.path()).status()));
  const auto empty = OpenFile(folder.Write("empty", ""));
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_TRUE((*empty)->ReadTo(1).ok());
  EXPECT_TRUE((*empty)->bytes().empty());
}

}  // namespace
}  // namespace canopy
