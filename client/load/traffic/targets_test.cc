#include "client/load/traffic/targets.h"

#include <cstdio>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

using ::testing::HasSubstr;

TEST(ParseTargetsTest, ReadsAddressesAndShares) {
  const auto targets = ParseTargets("a:1=3,b:2,unix:path=0.5");
  ASSERT_TRUE(targets.ok());
  ASSERT_EQ(targets->size(), 3U);
  EXPECT_EQ((*targets)[0].address, "a:1");
  EXPECT_EQ((*targets)[0].share, 3);
  EXPECT_EQ((*targets)[1].share, 1);
  EXPECT_EQ((*targets)[2].address, "unix:path");
  for (const char* wrong : {"", "a:1,", "=2", "a:1=", "a:1=0", "a:1=-1", "a:1=x", "a:1=inf"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseTargets(wrong).status())) << wrong;
  }
}

TEST(CredentialsTest, FilesAreReadAndMissingOnesNamed) {
  const std::string path = ::testing::TempDir() + "/token";
  std::ofstream(path) << " secret \nmore\n";
  EXPECT_EQ(*ReadToken(path), "secret");
  std::ofstream(path) << "\n";
  EXPECT_THAT(ReadToken(path).status().message(), HasSubstr("holds no token"));
  std::remove(path.c_str());
  EXPECT_THAT(ReadToken(path).status().message(), HasSubstr("cannot read '" + path + "'"));
  EXPECT_THAT(TlsCredentials({path, "", ""}).status().message(), HasSubstr("cannot read"));
  EXPECT_THAT(TlsCredentials({"", path, ""}).status().message(), HasSubstr("needs its key"));
  EXPECT_THAT(TlsCredentials({"", "", path}).status().message(), HasSubstr("needs its key"));
  EXPECT_TRUE(TlsCredentials({}).ok());
}

}  // namespace
}  // namespace canopy::client
