#include "core/runtime/route_costs_file.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/checkpoint/testing/test_files.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

const RouteCostsKey kKey = {"a card", "bfloat16", "0123456789abcdef", "0.1"};
const RouteCosts kCosts = {
    {{Backend::kPath, {1.25, 0, 0.1, 3e-9}}, {Backend::kFused, {0.5, 0.125, 1.0 / 3, 0}}}};

void ExpectSame(const RouteCosts& actual, const RouteCosts& expected) {
  ASSERT_EQ(actual.backends.size(), expected.backends.size());
  for (const auto& [backend, cost] : expected.backends) {
    const BackendCost& other = actual.backends.at(backend);
    EXPECT_EQ(other.forward_ms, cost.forward_ms);
    EXPECT_EQ(other.group_ms, cost.group_ms);
    EXPECT_EQ(other.token_ms, cost.token_ms);
    EXPECT_EQ(other.pair_ms, cost.pair_ms);
  }
}

TEST(RouteCostsFileTest, KeepsEveryKeysCosts) {
  const TemporaryFolder folder;
  const std::string path = folder.Join("costs.json");
  EXPECT_TRUE(absl::IsNotFound(ReadRouteCosts(path, kKey).status()));
  ASSERT_TRUE(WriteRouteCosts(path, kKey, kCosts).ok());
  RouteCostsKey other = kKey;
  other.fingerprint = "fedcba9876543210";
  EXPECT_TRUE(absl::IsNotFound(ReadRouteCosts(path, other).status()));
  const RouteCosts other_costs = {{{Backend::kDense, {9, 8, 7, 6}}}};
  ASSERT_TRUE(WriteRouteCosts(path, other, other_costs).ok());
  ExpectSame(*ReadRouteCosts(path, kKey), kCosts);
  ExpectSame(*ReadRouteCosts(path, other), other_costs);
  ASSERT_TRUE(WriteRouteCosts(path, kKey, other_costs).ok());
  ExpectSame(*ReadRouteCosts(path, kKey), other_costs);
  ExpectSame(*ReadRouteCosts(path, other), other_costs);
}

TEST(RouteCostsFileTest, AnEmptyFileHasNoEntries) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("costs.json", "");
  EXPECT_TRUE(absl::IsNotFound(ReadRouteCosts(path, kKey).status()));
  ASSERT_TRUE(WriteRouteCosts(path, kKey, kCosts).ok());
  ExpectSame(*ReadRouteCosts(path, kKey), kCosts);
}

TEST(RouteCostsFileTest, EveryPartOfTheKeyCounts) {
  const TemporaryFolder folder;
  const std::string path = folder.Join("costs.json");
  ASSERT_TRUE(WriteRouteCosts(path, kKey, kCosts).ok());
  for (std::string RouteCostsKey::*part : {&RouteCostsKey::device, &RouteCostsKey::dtype,
                                           &RouteCostsKey::fingerprint, &RouteCostsKey::build}) {
    RouteCostsKey other = kKey;
    other.*part += "x";
    EXPECT_TRUE(absl::IsNotFound(ReadRouteCosts(path, other).status()));
  }
}

// Several servers of one host update the file when they start together.
TEST(RouteCostsFileTest, SimultaneousUpdatesAllRemainAndLeaveNothingElse) {
  const TemporaryFolder folder;
  const std::string path = folder.Join("costs.json");
  constexpr int kWriters = 16;
  std::vector<pid_t> children;
  for (int i = 0; i < kWriters; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      RouteCostsKey key = kKey;
      key.fingerprint = absl::StrCat("weights ", i);
      _exit(WriteRouteCosts(path, key, kCosts).ok() && WriteRouteCosts(path, key, kCosts).ok() ? 0
                                                                                               : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  for (int i = 0; i < kWriters; ++i) {
    RouteCostsKey key = kKey;
    key.fingerprint = absl::StrCat("weights ", i);
    const auto costs = ReadRouteCosts(path, key);
    EXPECT_TRUE(costs.ok()) << costs.status();
  }
  int num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.Join("."))) {
    EXPECT_EQ(entry.path().filename(), "costs.json");
    ++num_files;
  }
  EXPECT_EQ(num_files, 1);
}

TEST(RouteCostsFileTest, TheNewestOfTooManyEntriesAreKept) {
  const TemporaryFolder folder;
  const std::string path = folder.Join("costs.json");
  RouteCostsKey key = kKey;
  for (int i = 0; i < 300; ++i) {
    key.fingerprint = absl::StrCat(i);
    ASSERT_TRUE(WriteRouteCosts(path, key, kCosts).ok());
  }
  EXPECT_TRUE(ReadRouteCosts(path, key).ok());
  key.fingerprint = "44";
  EXPECT_TRUE(ReadRouteCosts(path, key).ok());
  key.fingerprint = "43";
  EXPECT_TRUE(absl::IsNotFound(ReadRouteCosts(path, key).status()));
  EXPECT_LT(std::filesystem::file_size(path), 1 << 20);
}

TEST(RouteCostsFileTest, RefusesWhatItHasNotWritten) {
  const TemporaryFolder folder;
  const std::string entry =
      R"({"entries": [{"device": "a card", "dtype": "bfloat16", "fingerprint": )"
      R"("0123456789abcdef", "build": "0.1", "costs": )";
  for (const std::string& text :
       {std::string("not json"), std::string("[]"), std::string(R"({"entries": 3})"),
        std::string(R"({"entries": [3]})"), entry + "3}]}", entry + R"({"warp": {}}}]})",
        entry + R"({"path": {"forward_ms": 1}}}]})",
        entry + R"({"path": {"forward_ms": -1, "group_ms": 0, "token_ms": 0, "pair_ms": 0}}}]})"}) {
    const std::string path = folder.Write("foreign.json", text);
    const absl::Status status = ReadRouteCosts(path, kKey).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_TRUE(absl::StrContains(status.message(), path)) << status;
  }
  const std::string foreign = folder.Write("foreign.json", "not json");
  EXPECT_TRUE(absl::IsInvalidArgument(WriteRouteCosts(foreign, kKey, kCosts)));
  EXPECT_TRUE(
      absl::IsInvalidArgument(WriteRouteCosts(folder.Join("no/such/folder.json"), kKey, kCosts)));
}

}  // namespace
}  // namespace canopy
