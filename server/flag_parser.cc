#include "server/flag_parser.h"

#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/file_text.h"
#include "base/flag_text.h"
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
    std::vector<absl::string_view> names;
    for (const auto& [known, flag] : flags_) {
      names.push_back(known);
    }
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, ": unknown flag", DidYouMean(name, names)));
  }

  bool IsSwitch(absl::string_view name) const {
    const OptionFlag* flag = Find(name);
    return flag != nullptr && flag->is_switch;
  }

  // Returns the value for --name or --noname without a value; null = the name is not that of a
  // switch.
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
    const absl::StatusOr<std::string> text = ReadFileText(std::string(path));
    if (!text.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--flagfile: ", text.status().message()));
    }
    std::vector<std::string> arguments;
    for (absl::string_view line : absl::StrSplit(*text, '\n')) {
      line = absl::StripAsciiWhitespace(line);
      if (!line.empty() && line[0] != '#') {
        arguments.emplace_back(line);
      }
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
