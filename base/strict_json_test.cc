#include "base/strict_json.h"

#include <nlohmann/json.hpp>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr JsonLimits kSmall{/*max_bytes=*/1000, /*max_depth=*/3, /*max_values=*/10};

std::string ErrorOf(const std::string& text, const JsonLimits& limits = kSmall) {
  const auto result = ParseStrictJson(text, limits);
  EXPECT_FALSE(result.ok()) << text;
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(result.status().message());
}

TEST(StrictJsonTest, AgreesWithThePlainParserOnGoodDocuments) {
  for (const std::string text : {
           "null",
           "-12",
           R"("a\u00e9\ud83d\ude00\u0000b")",
           "[]",
           "{}",
           R"([1, -2, 3.5, true, null, "x"])",
           R"({"a": {"b": [1, 2], "c": {}}, "d": 18446744073709551615, "e": [[]]})",
       }) {
    const auto result = ParseStrictJson(text, kSmall);
    ASSERT_TRUE(result.ok()) << text << ": " << result.status();
    EXPECT_EQ(*result, json::parse(text)) << text;
    EXPECT_EQ(result->type(), json::parse(text).type()) << text;
  }
}

TEST(StrictJsonTest, KeepsIntegersApartFromFloats) {
  const auto result = ParseStrictJson("[1, 1.0, -0, 18446744073709551616]", kSmall);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE((*result)[0].is_number_unsigned());
  EXPECT_TRUE((*result)[1].is_number_float());
  EXPECT_FALSE((*result)[2].is_number_unsigned());
  EXPECT_TRUE((*result)[3].is_number_float());
}

TEST(StrictJsonTest, RefusesWhatIsNotJson) {
  for (const std::string text :
       {"",           " ",           "{",        "[1,]",       "{\"a\" 1}",
        "{\"a\":1}}", "{} {}",       "NaN",      "[Infinity]", "[1e999]",
        "[-1e999]",   "'a'",         "// c\n1",  "\"\xff\"",   "\"\xc0\xaf\"",
        "\"a\nb\"",   "\"\\ud800\"", "\xef\xbb", "[01]",       "nul",
        "{1:2}",      "]",           "}",        ","}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr("not JSON at byte")) << text;
  }
  EXPECT_THAT(ErrorOf(std::string("\0", 1)), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf(std::string("1\0002", 3)), HasSubstr("not JSON at byte 1"));
}

TEST(StrictJsonTest, RefusesDuplicateKeysAtEveryDepth) {
  EXPECT_THAT(ErrorOf(R"({"a":1,"a":1})"), HasSubstr("duplicate key \"a\""));
  EXPECT_THAT(ErrorOf(R"({"a":1,"\u0061":2})"), HasSubstr("duplicate key \"a\""));
  EXPECT_THAT(ErrorOf(R"([{"b":[],"c":{},"b":{}}])"), HasSubstr("duplicate key \"b\""));
  EXPECT_TRUE(ParseStrictJson(R"({"a":{"a":1},"b":{"a":1}})", kSmall).ok());
}

TEST(StrictJsonTest, CountsDepthValuesAndBytes) {
  EXPECT_TRUE(ParseStrictJson("[[[1]]]", kSmall).ok());
  EXPECT_THAT(ErrorOf("[[[[1]]]]"), HasSubstr("deeper than 3"));
  EXPECT_THAT(ErrorOf(R"({"a":[{"b":{}}]})"), HasSubstr("deeper than 3"));
  EXPECT_TRUE(ParseStrictJson("[1,2,3,4,5,6,7,8,9]", kSmall).ok());
  EXPECT_THAT(ErrorOf("[1,2,3,4,5,6,7,8,9,0]"), HasSubstr("more than 10 JSON values"));
  EXPECT_TRUE(ParseStrictJson(std::string(999, ' ') + "1", kSmall).ok());
  EXPECT_THAT(ErrorOf(std::string(1000, ' ') + "1"), HasSubstr("1001 bytes exceeds 1000"));
}

TEST(StrictJsonTest, SurvivesNestingBombs) {
  const JsonLimits limits{/*max_bytes=*/int64_t{16} << 20, /*max_depth=*/16, /*max_values=*/100};
  const std::string arrays(4'000'000, '[');
  EXPECT_THAT(ErrorOf(arrays, limits), HasSubstr("deeper than 16"));
  std::string objects;
  for (int i = 0; i < 1'000'000; ++i) {
    objects += "{\"a\":";
  }
  EXPECT_THAT(ErrorOf(objects, limits), HasSubstr("deeper than 16"));
}

TEST(DescribeJsonTest, IsShortAscii) {
  EXPECT_EQ(DescribeJson(json::parse(R"({"a":[1,"\u00e9"]})")), R"({"a":[1,"\u00e9"]})");
  EXPECT_LE(DescribeJson(std::string(5000, 'x')).size(), 110U);
  EXPECT_FALSE(DescribeJson(std::string("\xff")).empty());
}

}  // namespace
}  // namespace canopy
