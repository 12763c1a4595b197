#include "server/flag_parser.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/option_flags.h"

namespace canopy::server {
namespace {

class FlagParserTest : public ::testing::Test {
 protected:
  struct Values {
    int number = 7;
    bool toggle = false;
    std::string text = "default";
    std::vector<std::string> many;
    std::string two_words;
  };

  static std::vector<OptionFlag> Flags(Values* values) {
    return {
        IntegerFlag("number", &values->number, {0, 9}, "A number of things."),
        SwitchFlag("toggle", &values->toggle, "On or off."),
        TextFlag("text", &values->text, "Some text."),
        RepeatedFlag("many", &values->many, "May be repeated."),
        TextFlag("two_words", &values->two_words, "A name of two words."),
    };
  }

  absl::Status Parse(const std::vector<std::string>& arguments) {
    return ParseFlags(arguments, Flags(&values_));
  }

  std::string Error(const std::vector<std::string>& arguments) {
    const absl::Status status = Parse(arguments);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_FALSE(absl::StrContains(status.message(), '\n'));
    return std::string(status.message());
  }

  static std::string WriteFile(const std::string& text) {
    std::string path = absl::StrCat(::testing::TempDir(), "/flags");
    std::ofstream(path) << text;
    return path;
  }

  Values values_;
};

TEST_F(FlagParserTest, ReadsEveryForm) {
  ASSERT_TRUE(Parse({"--number=1", "--text", "a=b", "--toggle"}).ok());
  EXPECT_EQ(values_.number, 1);
  EXPECT_EQ(values_.text, "a=b");
  EXPECT_TRUE(values_.toggle);
  ASSERT_TRUE(Parse({"--notoggle", "--text=", "--number=2", "--number=3", "--"}).ok());
  EXPECT_FALSE(values_.toggle);
  EXPECT_EQ(values_.text, "");
  EXPECT_EQ(values_.number, 3);
  ASSERT_TRUE(Parse({"--toggle=true"}).ok());
  EXPECT_TRUE(values_.toggle);
}

TEST_F(FlagParserTest, JoinsRepeatableFlagsAlsoFromFiles) {
  const std::string path = WriteFile("# models\n\n  --many=b=/x, y\n--number=5\n");
  ASSERT_TRUE(Parse({"--many=a", absl::StrCat("--flagfile=", path), "--many", "c"}).ok());
  EXPECT_EQ(values_.many, (std::vector<std::string>{"a", "b=/x, y", "c"}));
  EXPECT_EQ(values_.number, 5);
}

TEST_F(FlagParserTest, ErrorsHaveOneLine) {
  EXPECT_EQ(Error({"--unknown=1"}), "--unknown: unknown flag");
  EXPECT_EQ(Error({"--unknown"}), "--unknown: unknown flag");
  EXPECT_EQ(Error({"--nonumber"}), "--nonumber: unknown flag; did you mean --number?");
  EXPECT_EQ(Error({"--number"}), "--number: a value is missing");
  EXPECT_EQ(Error({"--flagfile"}), "--flagfile: a value is missing");
  EXPECT_TRUE(absl::StartsWith(Error({"--number=x"}), "--number: 'x' is not valid"));
  EXPECT_TRUE(absl::StartsWith(Error({"--toggle=maybe"}), "--toggle: 'maybe' is not valid"));
  EXPECT_EQ(Error({"word"}), "unexpected argument 'word': every argument is a --flag");
  EXPECT_EQ(Error({"-number=1"}), "unexpected argument '-number=1': every argument is a --flag");
  EXPECT_EQ(Error({"--", "word"}), "unexpected argument '--': every argument is a --flag");
  EXPECT_EQ(Error({"--flagfile=/does/not/exist"}),
            "--flagfile: cannot read '/does/not/exist': No such file or directory");
  EXPECT_EQ(Error({"--flagfile=/"}),
            "--flagfile: cannot read '/': it is a folder; name a file in it");
  EXPECT_EQ(Error({absl::StrCat("--flagfile=", WriteFile("--flagfile=x"))}),
            "--flagfile: flag files do not nest");
  EXPECT_EQ(Error({absl::StrCat("--flagfile=", WriteFile("--number"))}),
            "--number: a value is missing");
}

TEST_F(FlagParserTest, NamesTheFlagThatWasProbablyMeant) {
  EXPECT_EQ(Error({"--two-words=1"}), "--two-words: unknown flag; did you mean --two_words?");
  EXPECT_EQ(Error({"--Two_Words", "1"}), "--Two_Words: unknown flag; did you mean --two_words?");
  EXPECT_EQ(Error({"--numbr=1"}), "--numbr: unknown flag; did you mean --number?");
  EXPECT_EQ(Error({"--numebr=1"}), "--numebr: unknown flag; did you mean --number?");
  EXPECT_EQ(Error({"--texts=1"}), "--texts: unknown flag; did you mean --text?");
  EXPECT_EQ(Error({"--x=1"}), "--x: unknown flag");
  EXPECT_EQ(Error({"--something_else=1"}), "--something_else: unknown flag");
}

TEST_F(FlagParserTest, HelpShowsDefaults) {
  const std::string help = FlagsHelp(Flags(&values_));
  EXPECT_EQ(help,
            "  --many  May be repeated. Default: ''.\n"
            "  --number  A number of things. Default: 7.\n"
            "  --text  Some text. Default: default.\n"
            "  --toggle  On or off. Default: false.\n"
            "  --two_words  A name of two words. Default: ''.\n");
}

}  // namespace
}  // namespace canopy::server
