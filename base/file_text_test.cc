#include "base/file_text.h"

#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace canopy {
namespace {

TEST(FileTextTest, ReadsWhatIsThere) {
  const std::string path = ::testing::TempDir() + "/file_text";
  const std::string text("a\0\r\n\xff", 5);
  std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(*ReadFileText(path), text);
  std::ofstream(path, std::ios::trunc).close();
  EXPECT_EQ(*ReadFileText(path), "");
}

TEST(FileTextTest, ReadsManyChunks) {
  const std::string path = ::testing::TempDir() + "/file_text_large";
  for (const size_t size : {16'383U, 16'384U, 16'385U, 100'000U}) {
    std::string text(size, 'x');
    text.back() = 'y';
    std::ofstream(path, std::ios::binary) << text;
    EXPECT_EQ(*ReadFileText(path), text);
  }
}

// Nothing is mapped at address 0, so this read fails like a read from a failing disk.
TEST(FileTextTest, AReadErrorIsAStatus) {
  EXPECT_EQ(ReadFileText("/proc/self/mem").status().message(),
            "cannot read '/proc/self/mem': Input/output error");
}

TEST(FileTextTest, ErrorsSayWhy) {
  EXPECT_EQ(ReadFileText("/nonexistent/x").status().message(),
            "cannot read '/nonexistent/x': No such file or directory");
  EXPECT_EQ(ReadFileText(::testing::TempDir()).status().message(),
            "cannot read '" + ::testing::TempDir() + "': it is a folder; name a file in it");
}

}  // namespace
}  // namespace canopy
