#include "client/codec.h"

#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

TEST(ParseQuestionTest, ReadsEveryField) {
  const absl::StatusOr<v1::Question> question = ParseQuestion(
      R"({"id": "q\u00e9", "kind": "score", "prefix": [0, 4294967295],
          "candidates": [{"id": "a", "tokens": [1, 2]}, {"tokens": []}, {"tokens": [], "comment": 7}]})");
  ASSERT_TRUE(question.ok()) << question.status();
  EXPECT_EQ(question->id(), "q\xc3\xa9");
  EXPECT_EQ(question->kind(), v1::QUESTION_KIND_SCORE);
  ASSERT_EQ(question->prefix().ids_size(), 2);
  EXPECT_EQ(question->prefix().ids(1), 4294967295U);
  ASSERT_EQ(question->candidates_size(), 3);
  EXPECT_EQ(question->candidates(0).id(), "a");
  EXPECT_EQ(question->candidates(0).tokens().ids(1), 2U);
  EXPECT_EQ(question->candidates(2).tokens().ids_size(), 0);
}

TEST(ParseQuestionTest, DefaultsAndComments) {
  const absl::StatusOr<v1::Question> question = ParseQuestion(
      R"({"prompt": "2 + 2 =", "answer": {"n": 4}, "candidates": [{"text": "4", "tokens": [52]}]})");
  ASSERT_TRUE(question.ok()) << question.status();
  EXPECT_EQ(question->id(), "");
  EXPECT_EQ(question->kind(), v1::QUESTION_KIND_PLAIN);
  EXPECT_EQ(question->prefix().ids_size(), 0);
}

TEST(ParseQuestionTest, KnowsEveryKind) {
  for (const auto& [name, kind] :
       std::vector<std::pair<std::string, v1::QuestionKind>>{{"plain", v1::QUESTION_KIND_PLAIN},
                                                             {"boolean", v1::QUESTION_KIND_BOOLEAN},
                                                             {"choice", v1::QUESTION_KIND_CHOICE},
                                                             {"score", v1::QUESTION_KIND_SCORE}}) {
    EXPECT_EQ(ParseQuestion(R"({"kind": ")" + name + R"(", "candidates": []})")->kind(), kind);
  }
}

TEST(ParseQuestionTest, ASlipIsNotAComment) {
  const auto message = [](const char* line) {
    return std::string(ParseQuestion(line).status().message());
  };
  // Either mistake would silently score another path.
  EXPECT_THAT(message(R"({"prefx": [1], "candidates": [{"tokens": [2]}]})"),
              ::testing::StartsWith("prefx: unknown key; known are id, kind, prefix, candidates"));
  EXPECT_THAT(message(R"({"prefix": [1], "candidates": [{"token": [2]}]})"),
              ::testing::StartsWith("candidates[0].token: unknown key; known are id, tokens"));
  EXPECT_THAT(message(R"({"prefix": [1], "candidates": [{"text": "abc"}]})"),
              ::testing::StartsWith("candidates[0].tokens: missing"));
}

TEST(ParseQuestionTest, MinusZeroIsTheTokenZero) {
  const auto question = ParseQuestion(R"({"prefix": [-0, 0], "candidates": []})");
  ASSERT_TRUE(question.ok()) << question.status();
  EXPECT_THAT(question->prefix().ids(), ::testing::ElementsAre(0, 0));
}

struct WrongLine {
  std::string line;
  std::string message;
};

class WrongLineTest : public ::testing::TestWithParam<WrongLine> {};

TEST_P(WrongLineTest, AWrongLineIsRefusedWithItsPlace) {
  const absl::Status status = ParseQuestion(GetParam().line).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), GetParam().message);
}

constexpr char kNoToken[] = " is not a token id (an integer from 0 to 4294967295)";

INSTANTIATE_TEST_SUITE_P(
    All, WrongLineTest,
    ::testing::Values(
        WrongLine{R"({"candidates": [)", "column 17: not JSON"},
        WrongLine{R"({"candidates": []} x)", "column 20: not JSON"},
        WrongLine{R"({"prefix": [1], "candidates": [], "prefix": [2]})",
                  "the key \"prefix\" is given twice: leave one"},
        WrongLine{R"({"candidates": [{"tokens": [1]}, {"tokens": [1], "tokens": [2]}]})",
                  "candidates[1]: the key \"tokens\" is given twice: leave one"},
        WrongLine{R"({"answer": {"n": 1, "n": 2}, "candidates": []})",
                  "answer: the key \"n\" is given twice: leave one"},
        WrongLine{"{\"id\": \"\xff\"}", "column 9: not JSON"},
        WrongLine{R"({"id": NaN})", "column 8: not JSON"},
        WrongLine{"[]", "question: must be an object, not array"},
        WrongLine{"{}", "candidates: missing"},
        WrongLine{R"({"id": 1, "candidates": []})", "id: must be a string, not number"},
        WrongLine{R"({"kind": "best", "candidates": []})",
                  "kind: 'best' is not one of plain|boolean|choice|score"},
        WrongLine{R"({"kind": 2, "candidates": []})", "kind: must be a string, not number"},
        WrongLine{R"({"prefix": 5, "candidates": []})",
                  "prefix: must be a list of token ids, not number"},
        WrongLine{R"({"prefix": null, "candidates": []})",
                  "prefix: must be a list of token ids, not null"},
        WrongLine{R"({"prefix": [1, -7], "candidates": []})",
                  std::string("prefix[1]: -7") + kNoToken},
        WrongLine{R"({"prefix": [1.0], "candidates": []})",
                  std::string("prefix[0]: 1.0") + kNoToken},
        WrongLine{R"({"prefix": [1e3], "candidates": []})",
                  std::string("prefix[0]: 1000.0") + kNoToken},
        WrongLine{R"({"prefix": [1.5], "candidates": []})",
                  std::string("prefix[0]: 1.5") + kNoToken},
        WrongLine{R"({"prefix": [-0.0], "candidates": []})",
                  std::string("prefix[0]: -0.0") + kNoToken},
        WrongLine{R"({"prefix": [18446744073709551616], "candidates": []})",
                  std::string("prefix[0]: 1.8446744073709552e+19") + kNoToken},
        WrongLine{R"({"prefix": [1e999], "candidates": []})",
                  "column 17: the number is out of range"},
        WrongLine{R"({"prefix": [NaN], "candidates": []})", "column 13: not JSON"},
        WrongLine{R"({"prefix": [4294967296], "candidates": []})",
                  std::string("prefix[0]: 4294967296") + kNoToken},
        WrongLine{R"({"prefix": ["a"], "candidates": []})",
                  std::string("prefix[0]: string") + kNoToken},
        WrongLine{R"({"prefix": [true], "candidates": []})",
                  std::string("prefix[0]: boolean") + kNoToken},
        WrongLine{R"({"prefix": [[1]], "candidates": []})",
                  std::string("prefix[0]: array") + kNoToken},
        WrongLine{R"({"candidates": {}})", "candidates: must be a list of objects, not object"},
        WrongLine{R"({"candidates": [{"tokens": []}, [1]]})",
                  "candidates[1]: must be an object, not array"},
        WrongLine{R"({"candidates": [{"id": []}]})",
                  "candidates[0].id: must be a string, not array"},
        WrongLine{R"({"candidates": [{"tokens": []}, {"tokens": [1, 2, -3]}]})",
                  std::string("candidates[1].tokens[2]: -3") + kNoToken},
        WrongLine{R"({"candidates": [{"tokens": "12"}]})",
                  "candidates[0].tokens: must be a list of token ids, not string"}));

// Comments are checked too, because a recursive parser would overflow the stack.
TEST(ParseQuestionTest, RefusesDeepNesting) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  for (const std::string& line : {deep, R"({"prompt": )" + deep + R"(, "candidates": []})"}) {
    EXPECT_EQ(ParseQuestion(line).status().message(), "nested deeper than 64");
  }
  EXPECT_TRUE(ParseQuestion(R"({"answer": [[[{"a": [[{}]]}]]], "candidates": []})").ok());
}

TEST(ReadQuestionsTest, AppendsEveryLine) {
  std::istringstream input(
      "{\"id\": \"a\", \"candidates\": []}\n\n  \r\n{\"id\": \"b\", \"candidates\": []}\r\n");
  v1::ScoreRequest request;
  request.add_questions()->set_id("first");
  ASSERT_TRUE(ReadQuestions(input, &request).ok());
  ASSERT_EQ(request.questions_size(), 3);
  EXPECT_EQ(request.questions(1).id(), "a");
  EXPECT_EQ(request.questions(2).id(), "b");
}

TEST(ReadQuestionsTest, AListOfQuestionsIsExplained) {
  std::istringstream input(R"([{"prefix": [1], "candidates": []}])");
  v1::ScoreRequest request;
  const absl::Status status = ReadQuestions(input, &request);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              ::testing::StartsWith("line 1: a JSON list where lines are wanted"));
}

TEST(ReadQuestionsTest, NamesTheLine) {
  std::istringstream input("{\"candidates\": []}\n\n{\"candidates\": 1}\n");
  v1::ScoreRequest request;
  EXPECT_EQ(ReadQuestions(input, &request).message(),
            "line 3: candidates: must be a list of objects, not number");
}

}  // namespace
}  // namespace canopy::client
