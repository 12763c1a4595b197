#include "core/checkpoint/head_settings.h"

#include <filesystem>
#include <string>

#include "absl/strings/match.h"
#include "core/checkpoint/testing/test_files.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

absl::StatusOr<DecisionTemperatures> TemperaturesIn(const TemporaryFolder& folder) {
  auto snapshot = FolderSnapshot::Open(folder.path());
  EXPECT_TRUE(snapshot.ok()) << snapshot.status();
  return ReadTemperatures(&*snapshot);
}

absl::StatusOr<std::optional<RerankerTokens>> TokensIn(const TemporaryFolder& folder) {
  auto snapshot = FolderSnapshot::Open(folder.path());
  EXPECT_TRUE(snapshot.ok()) << snapshot.status();
  return ReadRerankerTokens(&*snapshot);
}

absl::StatusOr<DecisionTemperatures> Read(const std::string& text) {
  const TemporaryFolder folder;
  folder.Write("temperatures.json", text);
  return TemperaturesIn(folder);
}

TEST(ReadTemperaturesTest, AbsentMeansOne) {
  const TemporaryFolder folder;
  const auto none = TemperaturesIn(folder);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->boolean, 1);
  EXPECT_EQ(none->choice, 1);
  EXPECT_EQ(none->score, 1);
  EXPECT_EQ(Read("{}")->choice, 1);
}

TEST(ReadTemperaturesTest, ReadsEachKind) {
  const auto all = Read(R"({"score": {"temperature": 20}, "boolean": {"temperature": 0.05},
                            "choice": {"temperature": 1.5, "fitted_on": "validation"}})");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->boolean, 0.05);
  EXPECT_EQ(all->choice, 1.5);
  EXPECT_EQ(all->score, 20);
  const auto one = Read(R"({"choice": {"temperature": 2}})");
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->boolean, 1);
  EXPECT_EQ(one->choice, 2);
}

TEST(ReadTemperaturesTest, EverythingElseIsBadAndNamed) {
  const struct {
    const char* text;
    const char* named;
  } cases[] = {
      {R"({"boolean": {"temperature": 0.049}})", "boolean.temperature: 0.049"},
      {R"({"score": {"temperature": 20.1}})", "score.temperature: 20.1"},
      {R"({"choice": {"temperature": -1}})", "choice.temperature: -1"},
      {R"({"choice": {"temperature": "1"}})", "choice.temperature: \"1\""},
      {R"({"choice": {"temperature": null}})", "choice.temperature: null"},
      {R"({"choice": {}})", "choice: {}"},
      {R"({"choice": 1.5})", "choice: 1.5"},
      {R"({"choice": [1.5]})", "choice: [1.5]"},
      {R"({"plain": {"temperature": 1}})", "\"plain\" is no kind"},
      {R"([])", "[]"},
      {R"({"choice": {"temperature": 1}, "choice": {"temperature": 2}})", "choice"},
      {R"({"choice": )", "temperatures.json"},
  };
  for (const auto& bad : cases) {
    const absl::Status status = Read(bad.text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << bad.text;
    EXPECT_TRUE(absl::StrContains(status.message(), bad.named)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "/temperatures.json: ")) << status;
  }
}

TEST(ReadTemperaturesTest, AFolderInItsPlaceIsBad) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.Join("temperatures.json"));
  EXPECT_EQ(TemperaturesIn(folder).status().code(), absl::StatusCode::kDataLoss);
}

TEST(ReadRerankerTokensTest, ReadsBothOrNothing) {
  const TemporaryFolder folder;
  EXPECT_FALSE(TokensIn(folder)->has_value());
  folder.Write("reranker.json", R"({"no_token": 2152, "yes_token": 9693})");
  const auto tokens = TokensIn(folder);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  ASSERT_TRUE(tokens->has_value());
  EXPECT_EQ((*tokens)->yes, 9693);
  EXPECT_EQ((*tokens)->no, 2152);
  for (const char* bad :
       {"{}", "[]", R"({"yes_token": 1})", R"({"yes_token": 1, "no_token": -2})",
        R"({"yes_token": 1, "no_token": "2"})", R"({"yes_token": 1, "no_token": 2, "x": 3})",
        R"({"yes": 1, "no": 2})", "yes"}) {
    folder.Write("reranker.json", bad);
    const absl::Status status = TokensIn(folder).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << bad;
    EXPECT_TRUE(absl::StrContains(status.message(), "/reranker.json: ")) << status;
  }
}

}  // namespace
}  // namespace canopy
