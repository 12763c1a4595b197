// The program `canopy` as a function, so that tests can run all of it.
#ifndef CLIENT_CLI_RUN_CLI_H_
#define CLIENT_CLI_RUN_CLI_H_

#include <istream>
#include <ostream>
#include <string>

#include "absl/types/span.h"

namespace canopy::client {

// Exit codes of `canopy`.
enum ExitCode : int {
  kOk = 0,
  kRefused = 1,      // refused by the server, or the answer was wrong
  kUsage = 2,        // a bad flag, bad input, or an unreadable or unwritable file
  kUnreachable = 3,  // no server, or one that is not ready
};

// The inputs and outputs of a run.
struct Streams {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  bool out_is_terminal = false;
  bool in_is_terminal = false;
};

// Runs `canopy` with `arguments`, without the program's name. Answers go to `out`, errors to `err`.
// Only one run at a time is allowed, because flags are global; each run starts with their defaults.
ExitCode RunCli(absl::Span<const std::string> arguments, const Streams& streams);

}  // namespace canopy::client

#endif  // CLIENT_CLI_RUN_CLI_H_
