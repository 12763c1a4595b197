#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/testing/file_test.h"
#include "base/whole_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OutputFileTest : public testing::FileTest {};

TEST_F(OutputFileTest, WritesAndReplacesAndLeavesNothingElse) {
  ASSERT_TRUE(WriteOutputFile(Join("report"), "one").ok());
  EXPECT_EQ(Read(Join("report")), "one");
  std::filesystem::create_symlink("report", Join("link"));
  const std::string large(1'000'000, 'x');
  ASSERT_TRUE(WriteOutputFile(Join("link"), large).ok());
  EXPECT_EQ(Read(Join("report")), large);
  EXPECT_TRUE(std::filesystem::is_symlink(Join("link")));
  EXPECT_THAT(Names(), ElementsAre("link", "report"));
}

TEST_F(OutputFileTest, WhatCannotBeWrittenIsNamedAndNothingIsLeft) {
  for (const std::string& path : {Join("no/such/file"), folder_, std::string()}) {
    const absl::Status status = WriteOutputFile(path, "text");
    EXPECT_FALSE(status.ok()) << path;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("'", path, "'")));
  }
  EXPECT_TRUE(Names().empty());
}

TEST_F(OutputFileTest, WhatCannotBeWrittenIsKnownBeforeThereIsATextAndNothingIsMade) {
  EXPECT_TRUE(CheckOutputFile(Join("report")).ok());
  EXPECT_TRUE(CheckOutputFile("/dev/stdout").ok());
  for (const std::string& path : {Join("no/such/file"), folder_}) {
    EXPECT_EQ(CheckOutputFile(path).message(), WriteOutputFile(path, "text").message());
  }
  EXPECT_TRUE(Names().empty());
}

// A limit on the file size acts like a full disk: a part is written, then writing fails.
TEST_F(OutputFileTest, AFullDiskLeavesTheOldReportAndNoPart) {
  const std::string path = Join("report");
  ASSERT_TRUE(WriteOutputFile(path, "old").ok());
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1'000, 1'000};
    const bool limited = setrlimit(RLIMIT_FSIZE, &limit) == 0;
    const bool refused = !WriteOutputFile(path, std::string(100'000, 'x')).ok();
    _exit(limited && refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Read(path), "old");
  EXPECT_THAT(Names(), ElementsAre("report"));
}

TEST_F(OutputFileTest, PipesAndDevicesAreWrittenToAndStayWhatTheyAre) {
  ASSERT_TRUE(WriteOutputFile("/dev/null", "text").ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_FALSE(WriteOutputFile("/dev/full", "text").ok());
  const std::string pipe = Join("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(WriteOutputFile(pipe, "text").ok()) << "it would wait for a reader";
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  ASSERT_TRUE(WriteOutputFile(pipe, "text").ok());
  char text[8] = {};
  EXPECT_EQ(read(reader, text, sizeof(text)), 4);
  EXPECT_STREQ(text, "text");
  close(reader);
  EXPECT_THAT(Names(), ElementsAre("pipe"));
}

TEST_F(OutputFileTest, ADanglingLinkGetsItsFileAndStaysALink) {
  std::filesystem::create_symlink("later", Join("link"));
  ASSERT_TRUE(WriteOutputFile(Join("link"), "text").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(Join("link")));
  EXPECT_EQ(Read(Join("later")), "text");
  EXPECT_THAT(Names(), ElementsAre("later", "link"));
}

TEST_F(OutputFileTest, AWritableFileInAFolderWithoutWritePermissionIsWritten) {
  const std::string path = Join("report");
  std::ofstream(path) << "an older and longer report";
  ASSERT_EQ(chmod(folder_.c_str(), 0555), 0);
  const pid_t child = fork();
  if (child == 0) {
    // The child drops its capabilities, so that permissions apply even to root.
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct none[2] = {};
    const bool is_bound = syscall(SYS_capset, &header, none) == 0;
    const bool refuses_new = !WriteOutputFile(Join("new"), "text").ok();
    _exit(is_bound && refuses_new && WriteOutputFile(path, "text").ok() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Read(path), "text");
  EXPECT_THAT(Names(), ElementsAre("report"));
}

// The mount is like that of `docker run --volume=FILE:FILE`.
TEST_F(OutputFileTest, ABindMountedFileIsWritten) {
  constexpr int kCannotMount = 77;
  const std::string path = Join("report");
  std::ofstream(path) << "an older and longer report";
  const pid_t child = fork();
  if (child == 0) {
    const bool is_apart = unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
    if (!is_apart || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount(path.c_str(), path.c_str(), nullptr, MS_BIND, nullptr) != 0) {
      _exit(kCannotMount);
    }
    _exit(WriteOutputFile(path, "text").ok() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotMount) {
    GTEST_SKIP() << "this process may not mount";
  }
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Read(path), "text");
  EXPECT_THAT(Names(), ElementsAre("report"));
}

}  // namespace
}  // namespace canopy
