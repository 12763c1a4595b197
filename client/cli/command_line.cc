#include "client/cli/command_line.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/flag_text.h"
#include "client/cli/flag_reader.h"
#include "client/output_fields.h"

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
    {"load_weights", "have a server change a model's weights while it serves",
     "canopy load_weights --source=NAME [--admin=HOST:PORT] [flags]",
     "NAME is a folder under the server's --weights_root. Shows the model as it serves from now "
     "on;\n"
     "when it is refused, the old weights go on. Large weights take longer than the default "
     "--deadline.\n",
     false},
    {"fingerprint", "compute the fingerprint of a checkpoint, without a server",
     "canopy fingerprint [flags] FOLDER",
     "FOLDER is a Hugging Face folder, or synthetic:CONFIG.json. The fingerprint is the one that "
     "a\n"
     "server shows which was started with this folder and the same --config and "
     "--reranker_*_token.\n",
     true},
};

constexpr absl::string_view kExitCodes =
    "Exit codes: 0 ok; 1 refused by the server, or its answer was wrong; 2 usage: bad flag, input "
    "or file;\n  3 the server cannot be reached.\n"
    "The answer goes to stdout, errors go to stderr.\n";

// The commands that take a flag, as bits.
enum CommandSet : unsigned {
  kScore = 1,
  kExplain = 2,
  kModel = 4,
  kHealth = 8,
  kLoadWeights = 16,
  kFingerprint = 32,
  kRequests = kScore | kExplain,
  kScorer = kRequests | kModel | kHealth,
  kCalls = kScorer | kLoadWeights,
  kAll = kCalls | kFingerprint,
};

struct FlagUse {
  absl::string_view name;
  unsigned commands;
};

constexpr FlagUse kOwnFlags[] = {
    {"server", kScorer},
    {"admin", kLoadWeights},
    {"deadline", kCalls},
    {"format", kAll},
    {"color", kCalls},
    {"input", kRequests},
    {"max_request_bytes", kRequests},
    {"svg", kExplain},
    {"max_svg_segments", kExplain},
    {"model", kRequests | kModel | kLoadWeights},
    {"source", kLoadWeights},
    {"expected_fingerprint", kLoadWeights},
    {"config", kFingerprint},
    {"reranker_yes_token", kFingerprint},
    {"reranker_no_token", kFingerprint},
    {"request_id", kRequests},
    {"traceparent", kRequests},
    {"min_model_version", kRequests},
    {"vocabulary_hash", kRequests},
    {"backend", kRequests},
    {"policy", kRequests},
    {"packing", kRequests},
    {"max_mask_bytes", kRequests},
    {"priority", kScore},
};

// Returns all flags: those above, then one for each field of Outputs.
const std::vector<FlagUse>& Flags() {
  static const auto* const flags = [] {
    auto* uses = new std::vector<FlagUse>(std::begin(kOwnFlags), std::end(kOwnFlags));
    for (const absl::string_view name : OutputsFieldNames()) {
      uses->push_back({name, kRequests});
    }
    return uses;
  }();
  return *flags;
}

const FlagUse* FindFlag(absl::string_view name) {
  const auto found = std::find_if(Flags().begin(), Flags().end(),
                                  [name](const FlagUse& flag) { return flag.name == name; });
  return found == Flags().end() ? nullptr : &*found;
}

const Command* FindCommand(absl::string_view name) {
  const auto* found = std::find_if(std::begin(kCommands), std::end(kCommands),
                                   [name](const Command& command) { return command.name == name; });
  return found == std::end(kCommands) ? nullptr : found;
}

// Returns the bit in FlagUse::commands of a command in kCommands.
unsigned CommandBit(const Command& command) { return 1U << (&command - std::begin(kCommands)); }

absl::Status Usage(absl::string_view problem) { return absl::InvalidArgumentError(problem); }

// Returns the names of the flags that one of `commands` takes.
std::vector<absl::string_view> NamesOf(unsigned commands) {
  std::vector<absl::string_view> names;
  for (const FlagUse& flag : Flags()) {
    if ((flag.commands & commands) != 0) {
      names.push_back(flag.name);
    }
  }
  return names;
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(absl::Span<const std::string> arguments) {
  const absl::StatusOr<Arguments> read = ReadArguments(arguments, NamesOf(kAll));
  if (!read.ok()) {
    return read.status();
  }
  CommandLine line;
  line.help = read->help;
  if (read->positional.empty()) {
    return line.help ? absl::StatusOr<CommandLine>(line) : Usage("a command is needed");
  }
  const Command* command = FindCommand(read->positional.front());
  if (command == nullptr) {
    std::vector<absl::string_view> names;
    for (const Command& each : kCommands) {
      names.push_back(each.name);
    }
    const std::string nearest = NearestName(read->positional.front(), names);
    return Usage(
        absl::StrCat("unknown command '", read->positional.front(), "'",
                     nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
  }
  for (const std::string& flag : read->flags) {
    if ((FindFlag(flag)->commands & CommandBit(*command)) == 0) {
      return Usage(absl::StrCat("--", flag, " is not a flag of `", command->name, "`"));
    }
  }
  line.command = std::string(command->name);
  line.files.assign(read->positional.begin() + 1, read->positional.end());
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
                        command->details.empty() ? "" : "\n",
                        FlagsHelp(NamesOf(CommandBit(*command))), "\n", kExitCodes);
  }
  std::string text = "canopy COMMAND [flags]: asks a Canopy server.\n\nCommands:\n";
  for (const Command& each : kCommands) {
    absl::StrAppendFormat(&text, "  %-13s %s\n", each.name, each.summary);
  }
  return absl::StrCat(text, "\n`canopy COMMAND --help` lists a command's flags.\n", kExitCodes);
}

}  // namespace canopy::client
