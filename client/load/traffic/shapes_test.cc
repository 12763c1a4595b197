#include "client/load/traffic/shapes.h"

#include <algorithm>
#include <set>
#include <string>

#include "client/path_tree.h"
#include "client/token_ids.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

using ::testing::HasSubstr;

// large enough that no two random tokens are equal here
constexpr uint64_t kVocabSize = 4'000'000'000;

struct Counts {
  uint64_t paths = 0;
  uint64_t longest = 0;
  uint64_t unique = 0;

  uint64_t path_tokens() const { return paths * longest; }
};

Counts CountsOf(const v1::ScoreRequest& request) {
  Counts counts;
  for (const v1::Question& question : request.questions()) {
    for (const v1::Candidate& candidate : question.candidates()) {
      ++counts.paths;
      counts.longest = std::max(counts.longest, NumPathTokens(question, candidate));
    }
    const v1::QuestionTree tree = BuildPathTree(question);
    for (const v1::TreeNode& node : tree.nodes()) {
      counts.unique += static_cast<uint64_t>(node.tokens_size());
    }
  }
  return counts;
}

v1::ScoreRequest Build(const std::string& name) {
  const absl::StatusOr<Shape> shape = ParseShape(name);
  EXPECT_TRUE(shape.ok()) << name;
  std::mt19937_64 random(1);
  v1::ScoreRequest request;
  AddQuestions(*shape, kVocabSize, &random, &request);
  return request;
}

// The numbers were counted by hand from the descriptions.
TEST(ShapesTest, HaveTheTokensThatTheyDescribe) {
  const struct {
    const char* name;
    uint64_t path_tokens;
    uint64_t unique_tokens;
  } cases[] = {{"small", 464, 164},
               {"typed", 9'120, 2'520},
               {"typed16", 145'920, 40'320},
               {"wide", 33'528, 2'168},
               {"candidates255", 269'280, 9'184},
               {"rollout", 2'228'224, 163'840},
               {"deep", 47'104, 4'320},
               {"unshared", 7'424, 7'424},
               {"tiny", 64, 28},
               {"state", 1'824, 504},
               {"3x2:5+4", 54, 39}};
  EXPECT_EQ(std::size(cases), NamedShapes().size() + 1);
  for (const auto& [name, path_tokens, unique_tokens] : cases) {
    const Counts counts = CountsOf(Build(name));
    EXPECT_EQ(counts.path_tokens(), path_tokens) << name;
    EXPECT_EQ(counts.unique, unique_tokens) << name;
    EXPECT_EQ(static_cast<int64_t>(counts.longest), MaxPathTokens(*ParseShape(name))) << name;
  }
}

TEST(ShapesTest, QuestionsOfOneStateShareIt) {
  const v1::ScoreRequest typed = Build("typed16");
  ASSERT_EQ(typed.questions_size(), 80);
  std::set<std::string> states;
  for (const v1::Question& question : typed.questions()) {
    std::string state;
    for (int i = 0; i < 400; ++i) {
      state += std::to_string(question.prefix().ids(i)) + " ";
    }
    states.insert(state);
  }
  EXPECT_EQ(states.size(), 16U);
}

TEST(ShapesTest, RequestsOfOneStateShareItAndNothingElse) {
  const Shape shape = *ParseShape("state");
  std::mt19937_64 random(1);
  v1::ScoreRequest requests[2];
  for (v1::ScoreRequest& request : requests) {
    AddQuestions(shape, 1'000'000, &random, &request);
  }
  const auto& first = requests[0].questions(0).prefix().ids();
  const auto& second = requests[1].questions(0).prefix().ids();
  ASSERT_EQ(first.size(), 440);
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 400, second.begin()));
  EXPECT_NE(first[400], second[400]);
}

TEST(ShapesTest, TokensAreBelowTheVocabularyAndFollowTheSeed) {
  const Shape shape = *ParseShape("wide");
  const auto build = [&shape](uint64_t seed) {
    std::mt19937_64 random(seed);
    v1::ScoreRequest request;
    AddQuestions(shape, 7, &random, &request);
    return request.SerializeAsString();
  };
  EXPECT_EQ(build(1), build(1));
  EXPECT_NE(build(1), build(2));
  v1::ScoreRequest request;
  ASSERT_TRUE(request.ParseFromString(build(3)));
  std::set<uint32_t> seen(request.questions(0).prefix().ids().begin(),
                          request.questions(0).prefix().ids().end());
  EXPECT_EQ(seen, (std::set<uint32_t>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(ParseShapeTest, NamesWhatIsWrong) {
  for (const char* wrong : {"", "huge", "4x8", "4x8:100", "4x8:100+", "0x8:1+1", "4x0:1+1",
                            "4x8:0+0", "4x8:-1+1", "4x8:1+1:1", "4x8x1:1+1", "9999999x1:1+1"}) {
    const auto refused = ParseShape(wrong);
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << wrong;
    EXPECT_THAT(refused.status().message(), HasSubstr("small, typed"));
  }
  EXPECT_TRUE(ParseShape("1x1:0+1").ok());
  EXPECT_TRUE(ParseShape("1x1:1+0").ok());
}

TEST(ParseMixTest, ReadsWeights) {
  const auto mix = ParseMix("small=8,2x2:3+4=0.5,wide");
  ASSERT_TRUE(mix.ok());
  ASSERT_EQ(mix->size(), 3U);
  EXPECT_EQ((*mix)[0].weight, 8);
  EXPECT_EQ((*mix)[1].shape.name, "2x2:3+4");
  EXPECT_EQ((*mix)[1].weight, 0.5);
  EXPECT_EQ((*mix)[2].weight, 1);
  for (const char* wrong :
       {"", "small,", "small=0", "small=-1", "small=x", "small=", "small=inf", "small=nan"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseMix(wrong).status())) << wrong;
  }
}

}  // namespace
}  // namespace canopy::client
