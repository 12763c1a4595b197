#include "base/utf8.h"

#include <string>

#include "gtest/gtest.h"

namespace canopy {
namespace {

TEST(Utf8Test, AcceptsUtf8AndNothingElse) {
  EXPECT_TRUE(IsValidUtf8(""));
  EXPECT_TRUE(IsValidUtf8(std::string("a\0b", 3)));
  EXPECT_TRUE(IsValidUtf8("\u00e9\u20ac\U0001f600\U0010ffff"));
  for (const char* bad :
       {"\x80", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "a\xe2\x82"}) {
    EXPECT_FALSE(IsValidUtf8(bad)) << bad;
  }
}

// Encodes a code point according to the table in RFC 3629.
std::string Encoded(uint32_t code_point) {
  const auto tail = [&](int shift) {
    return static_cast<char>(0x80 | (code_point >> shift & 0x3f));
  };
  if (code_point < 0x80) {
    return {static_cast<char>(code_point)};
  }
  if (code_point < 0x800) {
    return {static_cast<char>(0xc0 | code_point >> 6), tail(0)};
  }
  if (code_point < 0x10000) {
    return {static_cast<char>(0xe0 | code_point >> 12), tail(6), tail(0)};
  }
  return {static_cast<char>(0xf0 | code_point >> 18), tail(12), tail(6), tail(0)};
}

TEST(Utf8Test, DecodesEveryCodePointButSurrogates) {
  for (uint32_t code_point = 0; code_point <= 0x110000; ++code_point) {
    const std::string text = Encoded(code_point) + "x";
    const Utf8Character character = FirstUtf8Character(text);
    const bool is_valid = code_point <= 0x10ffff && (code_point < 0xd800 || code_point > 0xdfff);
    ASSERT_EQ(character.is_valid, is_valid) << code_point;
    ASSERT_EQ(character.code_point, is_valid ? code_point : kReplacementCharacter);
    ASSERT_EQ(character.num_bytes, is_valid ? text.size() - 1 : 1) << code_point;
  }
}

TEST(Utf8Test, TakesTheLongestBeginningOfACharacter) {
  EXPECT_EQ(FirstUtf8Character("\xe2\x82").num_bytes, 2U);
  EXPECT_EQ(FirstUtf8Character("\xf0\x9f\x98x").num_bytes, 3U);
  EXPECT_EQ(FirstUtf8Character("\xe2x").num_bytes, 1U);
}

TEST(Utf8Test, APrefixEndsBetweenCharacters) {
  EXPECT_EQ(Utf8Prefix("abc", 3), "abc");
  EXPECT_EQ(Utf8Prefix("abc", 2), "ab");
  EXPECT_EQ(Utf8Prefix("a\u20ac", 3), "a");
  EXPECT_EQ(Utf8Prefix("\u20ac", 2), "");
  EXPECT_EQ(Utf8Prefix("\u20ac\u20ac", 3), "\u20ac");
}

}  // namespace
}  // namespace canopy
