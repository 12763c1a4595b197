// The program `canopy_load` as a function, so that tests run it whole.
#ifndef CLIENT_LOAD_RUN_LOAD_H_
#define CLIENT_LOAD_RUN_LOAD_H_

#include <atomic>
#include <ostream>
#include <string>

#include "absl/types/span.h"

namespace canopy::client {

// Exit codes of `canopy_load`; where several apply, the one that comes first here.
enum LoadExit : int {
  kLoadOk = 0,
  kLoadUsage = 2,        // Bad flag or input, unwritable report.
  kLoadUnreachable = 3,  // No server to begin with.
  kLoadWrong = 5,        // An answer was wrong, or the totals do not add up.
  kLoadFailed = 1,       // The server refused what the run needs, or not one call was answered.
  kLoadMissed = 4,       // A threshold was missed, or no rate met the goal.
};

struct LoadStreams {
  std::ostream& out;
  std::ostream& err;
  bool err_is_terminal = false;
  const std::atomic<bool>* interrupted = nullptr;  // Set = end sending, and report. May be null.
  std::string program = "/proc/self/exe";          // Run again for --victims.
};

// Runs `canopy_load` with `arguments` (the program's name left out). One run at a time: flags are
// global, and start each run at their defaults.
LoadExit RunLoad(absl::Span<const std::string> arguments, const LoadStreams& streams);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_RUN_LOAD_H_
