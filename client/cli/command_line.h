// Parses the arguments of `canopy`: the command, its flags and its file.
#ifndef CLIENT_CLI_COMMAND_LINE_H_
#define CLIENT_CLI_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace canopy::client {

struct CommandLine {
  std::string command;  // score, explain, model, health or load_weights; may be empty with --help
  std::vector<std::string> files;  // the arguments after the command that are not flags
  bool help = false;
};

// Resets all flags (flags.h) to their defaults, then sets those in `arguments`: --name=value,
// --name value, --name or --noname; `--` ends them. Returns INVALID_ARGUMENT with the argument for
// an unknown command or flag, a flag that the command does not take, a bad value, or more than one
// file.
absl::StatusOr<CommandLine> ParseCommandLine(absl::Span<const std::string> arguments);

// Returns the text for --help of `command`; for the whole program if it is empty.
std::string HelpText(absl::string_view command);

}  // namespace canopy::client

#endif  // CLIENT_CLI_COMMAND_LINE_H_
