// The program `canopy` as a function, so that tests run it whole.
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
  kRefused = 1,      // By the server; or its answer was wrong.
  kUsage = 2,        // Bad flag, bad input, unreadable or unwritable file.
  kUnreachable = 3,  // No server, or one that is not up.
};

// Where a run reads and writes.
struct Streams {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  bool out_is_terminal = false;
  bool in_is_terminal = false;
};

// Runs `canopy` with `arguments` (the program's name left out). Answers go to `out`, errors to
// `err`. One run at a time: flags are global, and start each run at their defaults.
ExitCode RunCli(absl::Span<const std::string> arguments, const Streams& streams);

}  // namespace canopy::client

#endif  // CLIENT_CLI_RUN_CLI_H_
