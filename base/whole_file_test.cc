#include "base/whole_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/file_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class WholeFileTest : public testing::FileTest {};

TEST_F(WholeFileTest, WritesAndReplacesAndLeavesNothingElse) {
  const std::string path = Join("file");
  ASSERT_TRUE(WriteWholeFile(path, "one").ok());
  EXPECT_EQ(Read(path), "one");
  const mode_t mask = umask(0);
  umask(mask);
  EXPECT_EQ(ModeOf(path), 0666 & ~mask);
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  const std::string large(1'000'000, 'x');
  ASSERT_TRUE(WriteWholeFile(path, large).ok());
  EXPECT_EQ(Read(path), large);
  EXPECT_EQ(ModeOf(path), 0640U);
  ASSERT_TRUE(WriteWholeFile(path, "").ok());
  EXPECT_EQ(Read(path), "");
  EXPECT_THAT(Names(), ElementsAre("file"));
}

TEST_F(WholeFileTest, ReadsRegularFilesUpToALimitAndWaitsForNothing) {
  const std::string path = Join("file");
  EXPECT_TRUE(absl::IsNotFound(ReadWholeFile(path, 10).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadWholeFile(Join("no/file"), 10).status()));
  ASSERT_TRUE(WriteWholeFile(path, std::string("a\0b", 3)).ok());
  EXPECT_EQ(*ReadWholeFile(path, 3), std::string("a\0b", 3));
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadWholeFile(path, 2).status()));
  ASSERT_TRUE(WriteWholeFile(path, "").ok());
  EXPECT_EQ(*ReadWholeFile(path, 0), "");
  std::filesystem::resize_file(path, uint64_t{1} << 40);
  const std::string pipe = Join("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& other : {path, pipe, folder_, std::string("/dev/zero")}) {
    const absl::Status status = ReadWholeFile(other, 4'096).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("'", other, "'")));
  }
}

TEST_F(WholeFileTest, AnOpenReaderKeepsTheOldContent) {
  const std::string path = Join("file");
  ASSERT_TRUE(WriteWholeFile(path, "old").ok());
  std::ifstream reader(path);
  ASSERT_TRUE(WriteWholeFile(path, "new").ok());
  std::string text;
  reader >> text;
  EXPECT_EQ(text, "old");
  EXPECT_EQ(Read(path), "new");
}

TEST_F(WholeFileTest, LinksAreFollowed) {
  ASSERT_TRUE(WriteWholeFile(Join("target"), "old").ok());
  std::filesystem::create_symlink("target", Join("link"));
  std::filesystem::create_symlink("later", Join("dangling"));
  ASSERT_TRUE(WriteWholeFile(Join("link"), "new").ok());
  ASSERT_TRUE(WriteWholeFile(Join("dangling"), "made").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(Join("link")));
  EXPECT_TRUE(std::filesystem::is_symlink(Join("dangling")));
  EXPECT_EQ(Read(Join("target")), "new");
  EXPECT_EQ(Read(Join("later")), "made");
  EXPECT_THAT(Names(), ElementsAre("dangling", "later", "link", "target"));
}

TEST_F(WholeFileTest, ANameThatIsTakenIsSkipped) {
  // Such files may be left by a killed server, or by one in another container with the same process
  // id.
  std::set<std::string> before;
  for (int i = 0; i < 50; ++i) {
    const std::string name = absl::StrCat("file.tmp.", getpid(), ".", i);
    std::ofstream(Join(name)) << "another's";
    before.insert(name);
  }
  ASSERT_TRUE(WriteWholeFile(Join("file"), "text").ok());
  before.insert("file");
  EXPECT_EQ(Names(), before);
  EXPECT_EQ(Read(Join("file")), "text");
}

TEST_F(WholeFileTest, WhatCannotBeWrittenIsNamedAndNothingIsLeft) {
  for (const std::string& path : {Join("no/such/file"), folder_, std::string("/proc/canopy"),
                                  std::string(), absl::StrCat(Join("x"), "/")}) {
    const absl::Status status = WriteWholeFile(path, "text");
    EXPECT_FALSE(status.ok()) << path;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("'", path, "'")));
  }
  EXPECT_TRUE(Names().empty());
}

// A limit on the file size acts like a full disk: a part is written, then writing fails.
TEST_F(WholeFileTest, AFullDiskLeavesTheOldContentAndNoPart) {
  const std::string path = Join("file");
  ASSERT_TRUE(WriteWholeFile(path, "old").ok());
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1'000, 1'000};
    const bool limited = setrlimit(RLIMIT_FSIZE, &limit) == 0;
    const bool refused = !WriteWholeFile(path, std::string(100'000, 'x')).ok();
    _exit(limited && refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Read(path), "old");
  EXPECT_THAT(Names(), ElementsAre("file"));
}

TEST_F(WholeFileTest, PipesAndDevicesAreWrittenToAndStayWhatTheyAre) {
  ASSERT_TRUE(WriteWholeFile("/dev/null", "text").ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  const std::string pipe = Join("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(WriteWholeFile(pipe, "text").ok()) << "it would wait for a reader";
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  ASSERT_TRUE(WriteWholeFile(pipe, "text").ok());
  char text[8] = {};
  EXPECT_EQ(read(reader, text, sizeof(text)), 4);
  EXPECT_STREQ(text, "text");
  close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_THAT(Names(), ElementsAre("pipe"));
}

TEST_F(WholeFileTest, ALockKeepsOthersOutAndEnds) {
  auto first = FolderLock::Acquire(Join("file"), absl::ZeroDuration());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      FolderLock::Acquire(Join("other"), absl::Milliseconds(20)).status()));
  std::thread waits(
      [this] { EXPECT_TRUE(FolderLock::Acquire(Join("file"), absl::Hours(1)).ok()); });
  first->reset();
  waits.join();
  EXPECT_FALSE(FolderLock::Acquire(Join("no/file"), absl::Hours(1)).ok());
  EXPECT_TRUE(Names().empty());
}

// Tests that apply to both functions that write a file.
using Writer = absl::Status (*)(const std::string&, absl::string_view);
class EitherWriterTest : public testing::FileTest, public ::testing::WithParamInterface<Writer> {};

INSTANTIATE_TEST_SUITE_P(Writers, EitherWriterTest,
                         ::testing::Values(&WriteWholeFile, &WriteOutputFile));

// Replacing the file would leave the shell's descriptor with a file that has no name.
TEST_P(EitherWriterTest, AFileThatIsADescriptorIsWrittenThroughIt) {
  const std::string path = Join("out");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(fd, 0);
  struct stat before = {};
  ASSERT_EQ(fstat(fd, &before), 0);
  const pid_t child = fork();
  if (child == 0) {
    const bool redirected = dup2(fd, STDOUT_FILENO) >= 0 && dup2(fd, STDERR_FILENO) >= 0 &&
                            write(STDOUT_FILENO, "first,", 6) == 6;
    const bool written = GetParam()("/dev/stdout", "stdout,").ok() &&
                         GetParam()("/dev/stderr", "stderr,").ok() &&
                         GetParam()(absl::StrCat("/dev/fd/", fd), "descriptor,").ok() &&
                         GetParam()(absl::StrCat("/proc/self/fd/", fd), "proc").ok();
    _exit(redirected && written ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Read(path), "first,stdout,stderr,descriptor,proc");
  struct stat after = {};
  ASSERT_EQ(stat(path.c_str(), &after), 0);
  EXPECT_EQ(after.st_ino, before.st_ino);
  EXPECT_THAT(Names(), ElementsAre("out"));
  close(fd);
}

// /dev/stdout is such a link if its file was removed.
TEST_P(EitherWriterTest, ALinkToAFileWithoutANameStaysALink) {
  const int fd = open(Join("gone").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(unlink(Join("gone").c_str()), 0);
  std::filesystem::create_symlink(absl::StrCat("/proc/self/fd/", fd), Join("link"));
  ASSERT_TRUE(GetParam()(Join("link"), "text").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(Join("link")));
  EXPECT_THAT(Names(), ElementsAre("link"));
  char text[8] = {};
  EXPECT_EQ(pread(fd, text, sizeof(text), 0), 4);
  EXPECT_STREQ(text, "text");
  close(fd);
}

}  // namespace
}  // namespace canopy
