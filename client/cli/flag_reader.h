// Sets Abseil flags from arguments. Abseil's own parser ends the process on a bad flag; this parser
// returns a status, so that usage errors have their exit code.
#ifndef CLIENT_CLI_FLAG_READER_H_
#define CLIENT_CLI_FLAG_READER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace canopy::client {

struct Arguments {
  std::vector<std::string> positional;  // the arguments that are not flags, in order
  std::vector<std::string> flags;       // the names of the flags that were set
  bool help = false;                    // -h or --help.
};

// Resets the flags `names` to their defaults, then sets those in `arguments`: --name=value, --name
// value, --name or --noname; `--` ends them. Returns INVALID_ARGUMENT with the argument for a flag
// that is not among `names`, and for a bad or missing value.
absl::StatusOr<Arguments> ReadArguments(absl::Span<const std::string> arguments,
                                        absl::Span<const absl::string_view> names);

// Returns one line per flag: its name with the default, and its help.
std::string FlagsHelp(absl::Span<const absl::string_view> names);

}  // namespace canopy::client

#endif  // CLIENT_CLI_FLAG_READER_H_
