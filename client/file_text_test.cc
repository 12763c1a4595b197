#include "client/file_text.h"

#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace canopy::client {
namespace {

TEST(FileTextTest, ReadsWhatIsThere) {
  const std::string path = ::testing::TempDir() + "/file_text";
  const std::string text("a\0\r\n\xff", 5);
  std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(*ReadFileText(path), text);
  std::ofstream(path, std::ios::trunc).close();
  EXPECT_EQ(*ReadFileText(path), "");
}

TEST(FileTextTest, ErrorsSayWhy) {
  EXPECT_EQ(ReadFileText("/nonexistent/x").status().message(),
            "cannot read '/nonexistent/x': No such file or directory");
  EXPECT_EQ(ReadFileText(::testing::TempDir()).status().message(),
            "cannot read '" + ::testing::TempDir() + "': it is a folder; name a file in it");
}

}  // namespace
}  // namespace canopy::client
