#include "client/cli/output_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OutputFileTest : public ::testing::Test {
 protected:
  OutputFileTest() {
    const char* parent = std::getenv("TEST_TMPDIR");
    std::string name = absl::StrCat(parent == nullptr ? "/tmp" : parent, "/output_file.XXXXXX");
    folder_ = mkdtemp(name.data());
  }
  ~OutputFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Join(const std::string& name) const { return absl::StrCat(folder_, "/", name); }

  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

  static std::string Read(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  std::string folder_;
};

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

// As on a full disk: a part is written, and then no more.
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

}  // namespace
}  // namespace canopy::client
