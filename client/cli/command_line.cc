#include "client/cli/command_line.h"

#include <algorithm>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "client/cli/flags.h"

namespace canopy::client {
namespace {

struct Command {
  absl::string_view name;
  absl::string_view summary;
  absl::string_view usage;
  absl::string_view details;
  bool takes_file;
};

constexpr absl::string_view kInputFormat =
    "Input: JSON lines, a question a line; all lines make one request.\n"
    "  {\"id\": \"q1\", \"kind\": \"choice\", \"prefix\": [5, 6],\n"
    "   \"candidates\": [{\"id\": \"yes\", \"tokens\": [7]}, {\"id\": \"no\", \"tokens\": [8]}]}\n"
    "  kind: plain, boolean (first candidate = true), choice or score (levels, lowest first)\n"
    "  prompt, text, answer and comment are comments; any other key is refused\n";

constexpr Command kCommands[] = {
    {"score", "score the candidates of questions", "canopy score [flags] [FILE]", kInputFormat,
     true},
    {"explain", "show how a request would be planned, without running the model",
     "canopy explain [flags] [FILE]", kInputFormat, true},
    {"model", "describe the loaded models, or one", "canopy model [--model=NAME] [flags]", "",
     false},
    {"health", "whether the server lives and is ready to score", "canopy health [flags]",
     "Exit code 0 only when both are SERVING.\n", false},
};

constexpr absl::string_view kExitCodes =
    "Exit codes: 0 ok; 1 refused by the server, or its answer was wrong; 2 usage: bad flag, input "
    "or file;\n  3 the server cannot be reached.\n"
    "The answer goes to stdout, errors go to stderr.\n";

// Which commands take a flag.
enum Takers : unsigned {
  kScore = 1,
  kExplain = 2,
  kModel = 4,
  kHealth = 8,
  kRequests = kScore | kExplain,
  kAll = kRequests | kModel | kHealth,
};

struct FlagUse {
  absl::string_view name;
  unsigned takers;
};

constexpr FlagUse kFlags[] = {
    {"server", kAll},
    {"deadline", kAll},
    {"format", kAll},
    {"color", kAll},
    {"input", kRequests},
    {"max_request_bytes", kRequests},
    {"svg", kExplain},
    {"max_svg_segments", kExplain},
    {"model", kRequests | kModel},
    {"request_id", kRequests},
    {"min_model_version", kRequests},
    {"vocabulary_hash", kRequests},
    {"backend", kRequests},
    {"policy", kRequests},
    {"packing", kRequests},
    {"max_mask_bytes", kRequests},
    {"priority", kScore},
    {"scores", kScore},
    {"probabilities", kScore},
    {"vectors", kScore},
    {"vector_dtype", kScore},
    {"normalize", kScore},
    {"token_logprobs", kScore},
    {"entropy", kScore},
    {"vocab_range", kScore},
    {"values", kScore},
    {"top_logprobs", kScore},
    {"scope", kScore},
    {"temperature", kScore},
};

const FlagUse* FindFlag(absl::string_view name) {
  const auto* found = std::find_if(std::begin(kFlags), std::end(kFlags),
                                   [name](const FlagUse& flag) { return flag.name == name; });
  return found == std::end(kFlags) ? nullptr : found;
}

const Command* FindCommand(absl::string_view name) {
  const auto* found = std::find_if(std::begin(kCommands), std::end(kCommands),
                                   [name](const Command& command) { return command.name == name; });
  return found == std::end(kCommands) ? nullptr : found;
}

// The bit in FlagUse::takers of a command in kCommands.
unsigned TakerBit(const Command& command) { return 1U << (&command - std::begin(kCommands)); }

absl::Status Usage(absl::string_view problem) { return absl::InvalidArgumentError(problem); }

bool IsBool(absl::string_view name) {
  return FindFlag(name) != nullptr && absl::FindCommandLineFlag(name)->IsOfType<bool>();
}

// Arguments one after the other, and what has been made of them.
class Reader {
 public:
  explicit Reader(absl::Span<const std::string> arguments) : rest_(arguments) {}

  absl::Status Read() {
    while (!rest_.empty()) {
      const std::string& argument = rest_.front();
      rest_.remove_prefix(1);
      if (argument == "--") {
        positional_.insert(positional_.end(), rest_.begin(), rest_.end());
        break;
      }
      if (argument == "-h" || argument == "--help") {
        help_ = true;
      } else if (absl::StartsWith(argument, "-") && argument != "-") {
        if (absl::Status status = ReadFlag(argument); !status.ok()) {
          return status;
        }
      } else {
        positional_.push_back(argument);
      }
    }
    return absl::OkStatus();
  }

  const std::vector<std::string>& positional() const { return positional_; }
  const std::vector<const FlagUse*>& flags() const { return flags_; }
  bool help() const { return help_; }

 private:
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
    } else if (FindFlag(name) != nullptr) {
      if (rest_.empty()) {
        return Usage(absl::StrCat("--", name, " needs a value"));
      }
      value = rest_.front();
      rest_.remove_prefix(1);
    }
    return SetFlag(name, value);
  }

  absl::Status SetFlag(absl::string_view name, const std::string& value) {
    const FlagUse* flag = FindFlag(name);
    if (flag == nullptr) {
      return Usage(absl::StrCat("unknown flag --", name));
    }
    flags_.push_back(flag);
    std::string problem;
    if (!absl::FindCommandLineFlag(name)->ParseFrom(value, &problem)) {
      return Usage(absl::StrCat("--", name, ": '", value, "' is not a value of this flag"));
    }
    return absl::OkStatus();
  }

  absl::Span<const std::string> rest_;
  std::vector<std::string> positional_;
  std::vector<const FlagUse*> flags_;
  bool help_ = false;
};

void ResetFlags() {
  for (const FlagUse& flag : kFlags) {
    absl::CommandLineFlag* abseil_flag = absl::FindCommandLineFlag(flag.name);
    std::string problem;
    abseil_flag->ParseFrom(abseil_flag->DefaultValue(), &problem);
  }
}

std::string FlagsHelp(unsigned takers) {
  std::string text = "Flags:\n";
  for (const FlagUse& flag : kFlags) {
    if ((flag.takers & takers) != 0) {
      const absl::CommandLineFlag* abseil_flag = absl::FindCommandLineFlag(flag.name);
      const std::string named = absl::StrCat("--", flag.name, "=", abseil_flag->DefaultValue());
      absl::StrAppendFormat(&text, "  %-30s %s\n", named, abseil_flag->Help());
    }
  }
  return text;
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(absl::Span<const std::string> arguments) {
  ResetFlags();
  Reader reader(arguments);
  if (absl::Status status = reader.Read(); !status.ok()) {
    return status;
  }
  CommandLine line;
  line.help = reader.help();
  if (reader.positional().empty()) {
    return line.help ? absl::StatusOr<CommandLine>(line) : Usage("a command is needed");
  }
  const Command* command = FindCommand(reader.positional().front());
  if (command == nullptr) {
    return Usage(absl::StrCat("unknown command '", reader.positional().front(), "'"));
  }
  for (const FlagUse* flag : reader.flags()) {
    if ((flag->takers & TakerBit(*command)) == 0) {
      return Usage(absl::StrCat("--", flag->name, " is no flag of `", command->name, "`"));
    }
  }
  line.command = std::string(command->name);
  line.files.assign(reader.positional().begin() + 1, reader.positional().end());
  const size_t most_files = command->takes_file ? 1 : 0;
  if (line.files.size() > most_files) {
    return Usage(absl::StrCat("unexpected argument '", line.files[most_files], "'"));
  }
  return line;
}

std::string HelpText(absl::string_view command_name) {
  const Command* command = FindCommand(command_name);
  if (command != nullptr) {
    return absl::StrCat(command->usage, "\n  ", command->summary, "\n\n", command->details,
                        command->details.empty() ? "" : "\n", FlagsHelp(TakerBit(*command)), "\n",
                        kExitCodes);
  }
  std::string text = "canopy COMMAND [flags]: asks a Canopy server.\n\nCommands:\n";
  for (const Command& each : kCommands) {
    absl::StrAppendFormat(&text, "  %-10s %s\n", each.name, each.summary);
  }
  return absl::StrCat(text, "\n`canopy COMMAND --help` lists a command's flags.\n", kExitCodes);
}

}  // namespace canopy::client
