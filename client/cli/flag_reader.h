// Sets Abseil flags from arguments. Abseil's own parser ends the process on a bad flag; this one
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
  std::vector<std::string> positional;  // What is no flag, in order.
  std::vector<std::string> flags;       // Names of the flags that were set.
  bool help = false;                    // -h or --help.
};

// Puts the flags called `names` at their defaults, then sets those in `arguments`: --name=value,
// --name value, --name or --noname; `--` ends them. INVALID_ARGUMENT naming the argument: a flag
// that is not among `names`, a bad value, a missing one.
absl::StatusOr<Arguments> ReadArguments(absl::Span<const std::string> arguments,
                                        absl::Span<const absl::string_view> names);

// A line a flag: its name with the default, and its text.
std::string FlagsHelp(absl::Span<const absl::string_view> names);

}  // namespace canopy::client

#endif  // CLIENT_CLI_FLAG_READER_H_
