#include "client/cli/terminal_text.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace canopy::client {
namespace {

TEST(EscapeForTerminalTest, EscapesControlAndInvisibleCharacters) {
  struct Case {
    std::string text;
    std::string escaped;
  };
  for (const Case& each : std::vector<Case>{
           {"plain text", "plain text"},
           {"caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x99\x82",
            "caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x99\x82"},
           {"\x1b[31m", "\\x1b[31m"},
           {std::string("a\0b", 3), "a\\x00b"},
           {"line\r\n\t", "line\\x0d\\x0a\\x09"},
           {"\x7f", "\\x7f"},
           {"\xc2\x9b"
            "31m",
            "\\u{9b}31m"},  // One-byte CSI.
           {"\xe2\x80\xae"
            "gpj",
            "\\u{202e}gpj"},                    // Right-to-left override.
           {"\xe2\x80\x8b", "\\u{200b}"},       // Zero-width space.
           {"\xe2\x81\xa6", "\\u{2066}"},       // Left-to-right isolate.
           {"\xf3\xa0\x81\x81", "\\u{e0041}"},  // Invisible tag.
           {"back\\x1b", "back\\\\x1b"},
           {"\xff\xfe", "\\xff\\xfe"},
           {"\xc0\xaf", "\\xc0\\xaf"},                    // Overlong.
           {"\xed\xa0\x80", "\\xed\\xa0\\x80"},           // Surrogate.
           {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},  // Beyond Unicode.
           {"\xe6\x97", "\\xe6\\x97"},                    // Cut off.
       }) {
    EXPECT_EQ(EscapeForTerminal(each.text), each.escaped);
  }
}

TEST(DisplayWidthTest, CountsColumns) {
  EXPECT_EQ(DisplayWidth(""), 0);
  EXPECT_EQ(DisplayWidth("abc"), 3);
  EXPECT_EQ(DisplayWidth("caf\xc3\xa9"), 4);
  EXPECT_EQ(DisplayWidth("e\xcc\x81"), 1);                 // e and a combining accent.
  EXPECT_EQ(DisplayWidth("\xe6\x97\xa5\xe6\x9c\xac"), 4);  // Two wide characters.
  EXPECT_EQ(DisplayWidth("\xf0\x9f\x99\x82"), 2);
}

TEST(EscapeAndElideTest, ShowsThatItCut) {
  EXPECT_EQ(EscapeAndElide("abcdef", 6), "abcdef");
  EXPECT_EQ(EscapeAndElide("abcdefg", 6), "abc...");
  EXPECT_EQ(EscapeAndElide("a\x1b"
                           "bcdef",
                           6),
            "a...");  // An escape is never cut in two.
  EXPECT_EQ(EscapeAndElide("\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", 5), "\xe6\x97\xa5...");
  EXPECT_EQ(EscapeAndElide(std::string(1'000'000, 'x'), 40).size(), 40);
}

TEST(ShownIdTest, EmptyIdsAreNumbered) {
  EXPECT_EQ(ShownId("", 3), "#3");
  EXPECT_EQ(ShownId("\n", 3), "\\x0a");
}

TEST(PaletteTest, ColoursOnlyWhenOn) {
  EXPECT_EQ(Palette(false).Winner("a"), "a");
  EXPECT_EQ(Palette(true).Winner("a"), "\x1b[1;32ma\x1b[0m");
}

}  // namespace
}  // namespace canopy::client
