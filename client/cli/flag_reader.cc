#include "client/cli/flag_reader.h"

#include <algorithm>
#include <utility>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "base/flag_text.h"

namespace canopy::client {
namespace {

absl::Status Usage(absl::string_view problem) { return absl::InvalidArgumentError(problem); }

// Returns a description of the values of a flag, for errors.
absl::string_view Wanted(absl::string_view name) {
  const absl::CommandLineFlag& flag = *absl::FindCommandLineFlag(name);
  if (flag.IsOfType<absl::Duration>() || flag.IsOfType<absl::optional<absl::Duration>>()) {
    return "a time with its unit, as 500ms, 5s or 2m";
  }
  if (flag.IsOfType<bool>()) {
    return "true or false";
  }
  if (flag.IsOfType<double>() || flag.IsOfType<absl::optional<float>>()) {
    return "a number";
  }
  return flag.IsOfType<std::string>() ? "a value of this flag"
                                      : "a value of this flag: a whole number in its range";
}

// Reads arguments one after the other.
class Reader {
 public:
  Reader(absl::Span<const std::string> arguments, absl::Span<const absl::string_view> names)
      : rest_(arguments), names_(names) {}

  absl::StatusOr<Arguments> Read() {
    while (!rest_.empty()) {
      const std::string& argument = rest_.front();
      rest_.remove_prefix(1);
      if (argument == "--") {
        read_.positional.insert(read_.positional.end(), rest_.begin(), rest_.end());
        break;
      }
      if (argument == "-h" || argument == "--help") {
        read_.help = true;
      } else if (absl::StartsWith(argument, "-") && argument != "-") {
        if (absl::Status status = ReadFlag(argument); !status.ok()) {
          return status;
        }
      } else {
        read_.positional.push_back(argument);
      }
    }
    return std::move(read_);
  }

 private:
  bool Knows(absl::string_view name) const {
    return std::find(names_.begin(), names_.end(), name) != names_.end();
  }

  bool IsBool(absl::string_view name) const {
    return Knows(name) && absl::FindCommandLineFlag(name)->IsOfType<bool>();
  }

  absl::Status ReadFlag(absl::string_view argument) {
    absl::string_view name = argument;
    absl::ConsumePrefix(&name, "-");
    absl::ConsumePrefix(&name, "-");
    const size_t equals = name.find('=');
    std::string value;
    if (equals != absl::string_view::npos) {
      value = std::string(name.substr(equals + 1));
      name = name.substr(0, equals);
    } else if (IsBool(name)) {
      value = "true";
    } else if (IsBool(absl::StripPrefix(name, "no"))) {
      name = absl::StripPrefix(name, "no");
      value = "false";
    } else if (Knows(name)) {
      if (rest_.empty()) {
        return Usage(absl::StrCat("--", name, " needs a value"));
      }
      value = rest_.front();
      rest_.remove_prefix(1);
    }
    return SetFlag(name, value);
  }

  absl::Status SetFlag(absl::string_view name, const std::string& value) {
    if (!Knows(name)) {
      return Usage(absl::StrCat("unknown flag --", name, DidYouMean(name, names_)));
    }
    read_.flags.emplace_back(name);
    std::string problem;
    if (!absl::FindCommandLineFlag(name)->ParseFrom(value, &problem)) {
      return Usage(absl::StrCat("--", name, ": '", value, "' is not ", Wanted(name)));
    }
    return absl::OkStatus();
  }

  absl::Span<const std::string> rest_;
  const absl::Span<const absl::string_view> names_;
  Arguments read_;
};

// Returns `text` with line breaks between words, so that no line exceeds kHelpColumns unless a word
// does. All lines start at column `indent`.
std::string Wrapped(absl::string_view text, size_t indent) {
  constexpr size_t kHelpColumns = 100;
  std::string wrapped;
  size_t column = indent;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    if (column > indent && column + 1 + word.size() > kHelpColumns) {
      absl::StrAppend(&wrapped, "\n", std::string(indent, ' '));
      column = indent;
    } else if (column > indent) {
      wrapped += ' ';
      ++column;
    }
    absl::StrAppend(&wrapped, word);
    column += word.size();
  }
  return wrapped;
}

}  // namespace

absl::StatusOr<Arguments> ReadArguments(absl::Span<const std::string> arguments,
                                        absl::Span<const absl::string_view> names) {
  for (const absl::string_view name : names) {
    absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
    std::string problem;
    flag->ParseFrom(flag->DefaultValue(), &problem);
  }
  return Reader(arguments, names).Read();
}

std::string FlagsHelp(absl::Span<const absl::string_view> names) {
  std::string text = "Flags:\n";
  for (const absl::string_view name : names) {
    const absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
    const std::string named = absl::StrCat("--", name, "=", flag->DefaultValue());
    absl::StrAppendFormat(&text, "  %-30s %s\n", named, Wrapped(flag->Help(), 33));
  }
  return text;
}

}  // namespace canopy::client
