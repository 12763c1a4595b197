#include "core/model/file_copy.h"

#include <unistd.h>

#include <string>

#include "absl/strings/match.h"
#include "core/model/test_files.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

std::string TextOf(const FileCopy& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(FileCopyTest, ReadsAsFarAsItIsTold) {
  const TemporaryFolder folder;
  const auto file = FileCopy::Open(folder.Write("file", "abcdef"));
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
  const auto file = FileCopy::Open(path);
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
  const auto file = FileCopy::Open(folder.Write("file", "abcdef"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(absl::IsCancelled((*file)->ReadTo(6, [] { return absl::CancelledError("gone"); })));
  EXPECT_EQ(TextOf(**file), std::string(6, '\0'));
}

TEST(FileCopyTest, RefusesWhatIsNoFile) {
  const TemporaryFolder folder;
  EXPECT_TRUE(absl::IsNotFound(FileCopy::Open(folder.Join("none")).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(FileCopy::Open(folder.path()).status()));
  const auto empty = FileCopy::Open(folder.Write("empty", ""));
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_TRUE((*empty)->ReadTo(1).ok());
  EXPECT_TRUE((*empty)->bytes().empty());
}

}  // namespace
}  // namespace canopy
