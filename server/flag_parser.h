// Sets abseil flags from a command line, with our own errors: abseil's parser exits by itself, with
// code 1 and several lines, and keeps only the last of a repeated flag.
//
// Understands --name=value, --name value, --name and --noname for switches, --flagfile=FILE (a flag
// a line; blank lines and # comments; not nested), and -- before nothing. There are no positional
// arguments.
#ifndef SERVER_FLAG_PARSER_H_
#define SERVER_FLAG_PARSER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace canopy::server {

// Joins the values of a flag that is given more than once, so that its type sees them all. A
// character that neither a shell word nor a line of a flag file holds.
inline constexpr char kRepeatSeparator = '\n';

// `arguments` without the program's name. `repeatable`: flags whose values add up; for the others
// the last one counts. INVALID_ARGUMENT, in one line, for an unknown flag, a value that its type
// refuses, a missing value, a positional argument, or a flag file that cannot be read.
absl::Status ParseFlags(const std::vector<std::string>& arguments,
                        const std::vector<std::string>& repeatable);

// The flags whose definitions stand in a file that ends in `file_suffix`: name, default and
// help, sorted by name.
std::string FlagsHelp(absl::string_view file_suffix);

}  // namespace canopy::server

#endif  // SERVER_FLAG_PARSER_H_
