#include "server/flag_parser.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace canopy::server {
namespace {

constexpr absl::string_view kFlagFile = "flagfile";

// Flags by name.
using FlagMap = std::map<absl::string_view, const OptionFlag*>;

FlagMap ByName(absl::Span<const OptionFlag> flags) {
  FlagMap map;
  for (const OptionFlag& flag : flags) {
    map.emplace(flag.name, &flag);
  }
  return map;
}

// The number of letters to insert, remove or change that make `a` of `b`.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

// The flag that was probably meant by `name`; '' = none is near. Dashes stand for underscores, and
// capitals for small letters.
std::string NearestFlag(absl::string_view name, const FlagMap& flags) {
  const std::string meant = absl::AsciiStrToLower(absl::StrReplaceAll(name, {{"-", "_"}}));
  std::string nearest;
  // About a third of the letters may be wrong.
  size_t least = std::min<size_t>((meant.size() + 1) / 3, 3) + 1;
  for (const auto& [each, flag] : flags) {
    if (const size_t distance = EditDistance(meant, each); distance < least) {
      least = distance;
      nearest = std::string(each);
    }
  }
  return nearest;
}

// Why a file cannot be read; `error` is errno.
std::string WhyUnreadable(const std::string& path, int error) {
  struct stat info {};
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return ": it is a folder; name a file in it";
  }
  return error == 0 ? "" : absl::StrCat(": ", std::strerror(error));
}

class FlagParser {
 public:
  explicit FlagParser(absl::Span<const OptionFlag> flags) : flags_(ByName(flags)) {}

  absl::Status Parse(absl::Span<const std::string> arguments, bool in_file) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      absl::string_view argument = arguments[i];
      if (argument == "--" && i + 1 == arguments.size()) {
        return absl::OkStatus();
      }
      if (!absl::ConsumePrefix(&argument, "--") || argument.empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat("unexpected argument '", arguments[i], "': every argument is a --flag"));
      }
      const size_t equals = argument.find('=');
      const absl::string_view name = argument.substr(0, equals);
      if (equals != absl::string_view::npos) {
        CANOPY_RETURN_IF_ERROR(Set(name, argument.substr(equals + 1), in_file));
      } else if (const char* value = SwitchValue(name); value != nullptr) {
        CANOPY_RETURN_IF_ERROR(Set(SwitchName(name), value, in_file));
      } else if (Find(name) == nullptr && name != kFlagFile) {
        return UnknownFlag(name);
      } else if (i + 1 < arguments.size() && !in_file) {
        CANOPY_RETURN_IF_ERROR(Set(name, arguments[++i], in_file));
      } else {
        return absl::InvalidArgumentError(absl::StrCat("--", name, ": a value is missing"));
      }
    }
    return absl::OkStatus();
  }

 private:
  const OptionFlag* Find(absl::string_view name) const {
    const auto found = flags_.find(name);
    return found == flags_.end() ? nullptr : found->second;
  }

  absl::Status UnknownFlag(absl::string_view name) const {
    const std::string nearest = NearestFlag(name, flags_);
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, ": unknown flag",
                     nearest.empty() ? "" : absl::StrCat("; did you mean --", nearest, "?")));
  }

  bool IsSwitch(absl::string_view name) const {
    const OptionFlag* flag = Find(name);
    return flag != nullptr && flag->is_switch;
  }

  // What --name alone or --noname stands for; null = neither names a switch.
  const char* SwitchValue(absl::string_view name) const {
    if (IsSwitch(name)) {
      return "true";
    }
    return IsSwitch(SwitchName(name)) ? "false" : nullptr;
  }

  absl::string_view SwitchName(absl::string_view name) const {
    return IsSwitch(name) ? name : absl::StripPrefix(name, "no");
  }

  absl::Status Set(absl::string_view name, absl::string_view value, bool in_file) {
    if (name == kFlagFile) {
      return in_file ? absl::InvalidArgumentError("--flagfile: flag files do not nest")
                     : ParseFile(value);
    }
    const OptionFlag* flag = Find(name);
    if (flag == nullptr) {
      return UnknownFlag(name);
    }
    if (!flag->set(value)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--", name, ": '", value, "' is not valid: Illegal value '",
          absl::StrReplaceAll(value, {{"\n", " "}}), "' specified for flag '", name, "'"));
    }
    return absl::OkStatus();
  }

  absl::Status ParseFile(absl::string_view path) {
    errno = 0;
    std::ifstream file{std::string(path)};
    const int error = errno;
    std::vector<std::string> arguments;
    for (std::string line; std::getline(file, line);) {
      const absl::string_view text = absl::StripAsciiWhitespace(line);
      if (!text.empty() && text[0] != '#') {
        arguments.emplace_back(text);
      }
    }
    if (!file.eof()) {
      return absl::InvalidArgumentError(absl::StrCat("--flagfile: cannot read '", path, "'",
                                                     WhyUnreadable(std::string(path), error)));
    }
    return Parse(arguments, /*in_file=*/true);
  }

  const FlagMap flags_;
};

}  // namespace

absl::Status ParseFlags(absl::Span<const std::string> arguments,
                        absl::Span<const OptionFlag> flags) {
  return FlagParser(flags).Parse(arguments, /*in_file=*/false);
}

std::string FlagsHelp(absl::Span<const OptionFlag> flags) {
  std::string help;
  for (const auto& [name, flag] : ByName(flags)) {
    absl::StrAppend(&help, "  --", name, "  ", flag->help,
                    " Default: ", flag->default_text.empty() ? "''" : flag->default_text, ".\n");
  }
  return help;
}

}  // namespace canopy::server
