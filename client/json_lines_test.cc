#include "client/json_lines.h"

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

std::string ProblemOf(const std::string& text) {
  const absl::StatusOr<Json> parsed = ParseStrictJson(text);
  EXPECT_TRUE(parsed.ok() || absl::IsInvalidArgument(parsed.status()));
  return std::string(parsed.status().message());
}

TEST(ParseStrictJsonTest, ReadsWhatTheLenientParserReads) {
  for (const char* text :
       {"{}", "[]", "null", " true ", "-7", "18446744073709551615", "1.5e3", "\"\\u00e9\\n\"",
        R"({"a": [1, {"b": [], "c": {"a": 1}}, [2, [3]]], "b": {"a": {}}})", "[[],[{}],[[{}]]]"}) {
    const absl::StatusOr<Json> parsed = ParseStrictJson(text);
    ASSERT_TRUE(parsed.ok()) << text << parsed.status();
    EXPECT_EQ(*parsed, Json::parse(text)) << text;
  }
}

TEST(ParseStrictJsonTest, AKeyGivenTwiceIsRefusedWithItsPlace) {
  EXPECT_EQ(ProblemOf(R"({"a": 1, "b": 2, "a": 1})"), "the key \"a\" is given twice: leave one");
  EXPECT_EQ(ProblemOf(R"({"c": [{"t": []}, {"t": [1], "t": [2]}]})"),
            "c[1]: the key \"t\" is given twice: leave one");
  EXPECT_EQ(ProblemOf(R"({"a": {"b": {"c": 1, "c": 2}}})"),
            "a.b: the key \"c\" is given twice: leave one");
  EXPECT_EQ(ProblemOf(R"([[], [{"\u0061": 1, "a": 2}]])"),
            "[1][0]: the key \"a\" is given twice: leave one");
  // The same key in different objects is not a duplicate.
  EXPECT_EQ(ProblemOf(R"({"a": {"a": {"a": 1}}, "b": [{"a": 1}, {"a": 2}]})"), "");
}

TEST(ParseStrictJsonTest, RefusesWhatIsNotJson) {
  for (const char* text :
       {"",       "{",          "{}}",         "{} {}", "{} x", "[1,]",   "{\"a\":1,}", "NaN",
        "[NaN]",  "[Infinity]", "[-Infinity]", "01",    "+1",   "1.",     ".5",         "'a'",
        "{a: 1}", "// x\n{}",   "{} // x",     "nul",   "\"a",  "\"\t\"", "[1] ,"}) {
    EXPECT_THAT(ProblemOf(text), HasSubstr(": not JSON")) << text;
  }
  EXPECT_EQ(ProblemOf(R"({"a": 1} x)"), "column 10: not JSON");
  EXPECT_EQ(ProblemOf(std::string("{}\0 {\"a\":", 9)), "column 3: not JSON");
  EXPECT_EQ(ProblemOf("[1e999]"), "column 6: the number is out of range");
}

TEST(ParseStrictJsonTest, RefusesBytesThatAreNotUtf8) {
  for (const char* text : {"\"\xff\"", "\"\xc3\x28\"", "\"\xed\xa0\x80\"", "\"\xc0\xaf\"",
                           "\"\xf8\x88\x80\x80\x80\"", "\"\\ud800\"", "{\"\xfe\": 1}"}) {
    EXPECT_THAT(ProblemOf(text), HasSubstr(": not JSON")) << ::testing::PrintToString(text);
  }
  EXPECT_THAT(ProblemOf("\xef\xbb\xbf{}"), HasSubstr("byte order mark"));
}

TEST(ParseStrictJsonTest, RefusesDeepNestingAndSurvivesIt) {
  const auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '[') +
           std::string(static_cast<size_t>(depth), ']');
  };
  EXPECT_EQ(ProblemOf(nested(kMaxJsonDepth)), "");
  EXPECT_EQ(ProblemOf(nested(kMaxJsonDepth + 1)), "nested deeper than 64");
  EXPECT_EQ(ProblemOf(nested(1'000'000)), "nested deeper than 64");
}

struct Lines {
  std::vector<std::string> documents;
  absl::Status status;
};

Lines Read(const std::string& text) {
  std::istringstream input(text);
  Lines lines;
  lines.status = ReadJsonLines(input, [&lines](const Json& document) {
    lines.documents.push_back(document.dump());
    return document.is_string() ? absl::InvalidArgumentError("a string") : absl::OkStatus();
  });
  return lines;
}

TEST(ReadJsonLinesTest, SkipsBlankLinesAndReadsWindowsFiles) {
  const Lines lines = Read("\xef\xbb\xbf{\"a\":1}\r\n\r\n  \t\n2\n\n[3]");
  EXPECT_TRUE(lines.status.ok()) << lines.status;
  EXPECT_THAT(lines.documents, ElementsAre("{\"a\":1}", "2", "[3]"));
  EXPECT_TRUE(Read("").status.ok());
}

TEST(ReadJsonLinesTest, NamesTheLineOfWhatIsWrong) {
  EXPECT_EQ(Read("1\n\n{\"a\":1,\"a\":1}\n").status.message(),
            "line 3: the key \"a\" is given twice: leave one");
  EXPECT_EQ(Read("1\r\n\"x\"\r\n").status.message(), "line 2: a string");
  EXPECT_EQ(Read("1\n\xef\xbb\xbf{}\n").status.message(),
            "line 2: column 1: a byte order mark stands only at a file's start");
  EXPECT_EQ(Read(std::string("\xff\xfe{\0}\0", 6)).status.message(),
            "line 1: the file is UTF-16: save it as UTF-8");
}

TEST(ReadJsonLinesTest, OtherLayoutsAreExplained) {
  for (const char* text :
       {"[{\"a\":1},{\"a\":2}]", "[\n{\"a\":1},\n{\"a\":2}\n]", "\n  [{\"a\":1},\n", "[]"}) {
    const Lines lines = Read(text);
    EXPECT_THAT(std::string(lines.status.message()),
                HasSubstr("a JSON list where lines are wanted"));
    EXPECT_THAT(std::string(lines.status.message()), HasSubstr("jq -c '.[]'"));
    EXPECT_THAT(lines.documents, ElementsAre());
  }
  for (const char* text : {"{\n  \"a\": 1\n}\n", "{\"a\": 1,\n \"b\": 2}\n"}) {
    EXPECT_THAT(std::string(Read(text).status.message()),
                StartsWith("line 1: the object goes on in the next line"));
  }
  EXPECT_EQ(Read("{\"a\": 1").status.message(), "line 1: column 8: not JSON");
}

}  // namespace
}  // namespace canopy::client
