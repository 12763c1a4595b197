#include "client/load/traffic/request_pool.h"

#include <map>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

PoolOptions Options() {
  PoolOptions options;
  options.head.set_model("m");
  options.requests_per_shape = 5;
  options.vocab_size = 1'000'000;
  options.max_path_tokens = 2'048;
  return options;
}

TEST(RequestPoolTest, HoldsDistinctRequestsOfEachShape) {
  const auto pool = RequestPool::FromMix(*ParseMix("small,wide"), Options());
  ASSERT_TRUE(pool.ok());
  ASSERT_EQ(pool->size(), 10U);
  EXPECT_NE(pool->at(0).bytes, pool->at(1).bytes);
  EXPECT_EQ(pool->at(0).shape, "small");
  EXPECT_EQ(pool->at(9).shape, "wide");
  EXPECT_EQ(pool->at(9).questions, 2U);
  EXPECT_EQ(pool->at(9).candidates, 66U);
  EXPECT_EQ(pool->at(9).input_tokens, 33'528U);
  EXPECT_EQ(pool->at(9).unique_tokens, 2'168U);
  EXPECT_EQ(pool->at(0).request.model(), "m");
}

TEST(RequestPoolTest, AnIdCanBeAppendedToTheBytes) {
  const auto pool = RequestPool::FromMix(*ParseMix("tiny"), Options());
  v1::ScoreRequest expected = pool->at(2).request;
  expected.set_request_id("run-17");
  v1::ScoreRequest sent;
  ASSERT_TRUE(sent.ParseFromString(pool->at(2).bytes + RequestIdField("run-17")));
  EXPECT_TRUE(MessageDifferencer::Equals(sent, expected));
}

TEST(RequestPoolTest, DrawsByWeightAndSeed) {
  const auto pool = RequestPool::FromMix(*ParseMix("tiny=3,small=1"), Options());
  std::mt19937_64 random(4);
  std::map<size_t, int> draws;
  constexpr int kDraws = 40'000;
  for (int i = 0; i < kDraws; ++i) {
    ++draws[pool->Draw(&random)];
  }
  ASSERT_EQ(draws.size(), 10U);
  for (const auto& [index, count] : draws) {
    // The tolerance is six standard deviations of a binomial count.
    const double share = index < 5 ? 0.15 : 0.05;
    EXPECT_NEAR(count, kDraws * share, 6 * std::sqrt(kDraws * share)) << index;
  }
}

TEST(RequestPoolTest, EqualSeedsAreEqualPools) {
  PoolOptions options = Options();
  const auto one = RequestPool::FromMix(*ParseMix("small"), options);
  const auto two = RequestPool::FromMix(*ParseMix("small"), options);
  options.seed = 2;
  const auto other = RequestPool::FromMix(*ParseMix("small"), options);
  EXPECT_EQ(one->at(3).bytes, two->at(3).bytes);
  EXPECT_NE(one->at(3).bytes, other->at(3).bytes);
}

TEST(RequestPoolTest, PathsThatTheModelDoesNotTakeAreNamed) {
  PoolOptions options = Options();
  options.max_path_tokens = 115;
  EXPECT_EQ(RequestPool::FromMix(*ParseMix("tiny,small"), options).status().message(),
            "shape small: paths of 116 tokens exceed the model's max_path_tokens 115");
}

TEST(RequestPoolTest, ReadsTraces) {
  std::istringstream input(R"({"at_ms": 0, "shape": "small"}

{"at_ms": 2.5, "questions": [{"id": "a", "prefix": [5], "candidates": [{"tokens": [7]}]}]}
)");
  std::vector<absl::Duration> instants;
  const auto pool = RequestPool::FromTrace(input, Options(), &instants);
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_THAT(instants, ElementsAre(absl::ZeroDuration(), absl::Milliseconds(2.5)));
  ASSERT_EQ(pool->size(), 2U);
  EXPECT_EQ(pool->at(0).candidates, 4U);
  EXPECT_EQ(pool->at(1).shape, "trace");
  EXPECT_EQ(pool->at(1).request.questions(0).id(), "a");
  EXPECT_EQ(pool->at(1).request.model(), "m");
}

TEST(RequestPoolTest, WrongTracesAreNamedByLine) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "no requests"},
      {"x", "line 1: column 1: not JSON"},
      {"1", "line 1: not a JSON object"},
      {"[1]", "line 1: a JSON list where lines are wanted"},
      {R"({"at_ms": 0, "shape": "small", "at_ms": 1})", "line 1: the key \"at_ms\" is given twice"},
      {R"({"at_ms": 1, "questions": [{"prefix": [1], "candidates": [], "prefix": [2]}]})",
       "line 1: questions[0]: the key \"prefix\" is given twice"},
      {R"({"at_ms": 1, "questions": [{"prompt": )" + std::string(200'000, '[') +
           std::string(200'000, ']') + "}]}",
       "line 1: nested deeper than 64"},
      {R"({"at_ms": 1e300, "shape": "small"})", "line 1: at_ms must be"},
      {R"({"at_ms": 1e999, "shape": "small"})", "line 1: column 15: the number is out of range"},
      {R"({"at_ms": NaN, "shape": "small"})", "line 1: column 11: not JSON"},
      {R"({"shape": "small"})", "line 1: at_ms must be"},
      {R"({"at_ms": -1, "shape": "small"})", "line 1: at_ms must be"},
      {R"({"at_ms": 1})", "line 1: either shape or questions"},
      {R"({"at_ms": 1, "shape": "small", "questions": []})", "line 1: either shape or questions"},
      {R"({"at_ms": 1, "shape": 3})", "line 1: shape must be a string, not number"},
      {R"({"at_ms": 1, "shape": "1x1:4000+1"})", "line 1: shape 1x1:4000+1: paths of 4001"},
      {R"({"at_ms": 1, "questions": []})", "line 1: questions must be a list"},
      {R"({"at_ms": 1, "questions": [{"prefix": [1]}]})", "line 1: questions[0]: "},
      {R"({"at_ms": 1, "shape": "small", "weight": 2})", "line 1: unknown key 'weight'"},
      {"{\"at_ms\": 2, \"shape\": \"small\"}\n{\"at_ms\": 1, \"shape\": \"small\"}",
       "line 2: at_ms is before"},
  };
  for (const auto& [text, problem] : cases) {
    std::istringstream input(text);
    std::vector<absl::Duration> instants;
    const auto refused = RequestPool::FromTrace(input, Options(), &instants);
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << text;
    EXPECT_THAT(refused.status().message(), HasSubstr(problem)) << text;
  }
}

}  // namespace
}  // namespace canopy::client
