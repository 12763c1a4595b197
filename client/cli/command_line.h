// Reads the arguments of `canopy`: the command, its flags and its file.
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
  std::string command;  // score, explain, model, health, load_weights, or empty with --help.
  std::vector<std::string> files;  // What follows the command and is no flag.
  bool help = false;
};

// Puts all flags (flags.h) at their defaults, then sets those named in `arguments`: --name=value,
// --name value, --name or --noname; `--` ends them. INVALID_ARGUMENT naming the argument: an
// unknown command or flag, a flag that the command does not take, a bad value, more than one file.
absl::StatusOr<CommandLine> ParseCommandLine(absl::Span<const std::string> arguments);

// Text for --help of `command`; of the whole program when it is empty.
std::string HelpText(absl::string_view command);

}  // namespace canopy::client

#endif  // CLIENT_CLI_COMMAND_LINE_H_
