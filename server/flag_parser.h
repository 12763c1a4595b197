// Sets flags from a command line. An error has one line.
//
// Supports --name=value, --name value, --name and --noname for switches, --flagfile=FILE (one flag
// per line; blank lines and # comments; not nested), and a final --. There are no positional
// arguments.
#ifndef SERVER_FLAG_PARSER_H_
#define SERVER_FLAG_PARSER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/option_flags.h"

namespace canopy::server {

// Parses `arguments`, which do not include the program's name. A flag may be given several times.
// Calls only `set` of the flags. Returns INVALID_ARGUMENT, in one line, for an unknown flag, a
// value of the wrong type, a missing value, a positional argument, or a flag file that cannot be
// read.
absl::Status ParseFlags(absl::Span<const std::string> arguments,
                        absl::Span<const OptionFlag> flags);

// Returns a line for each flag, sorted by name: name, help and default.
std::string FlagsHelp(absl::Span<const OptionFlag> flags);

}  // namespace canopy::server

#endif  // SERVER_FLAG_PARSER_H_
