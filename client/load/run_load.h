// The program `canopy_load` as a function, so that tests can run all of it.
#ifndef CLIENT_LOAD_RUN_LOAD_H_
#define CLIENT_LOAD_RUN_LOAD_H_

#include <atomic>
#include <ostream>
#include <string>

#include "absl/types/span.h"

namespace canopy::client {

// The exit codes of `canopy_load`. If several apply, the first one in this list is used.
enum LoadExit : int {
  kLoadOk = 0,
  kLoadUsage = 2,        // a bad flag or input, or an unwritable report
  kLoadUnreachable = 3,  // no server at the start
  kLoadWrong = 5,        // an answer was wrong, or the totals do not add up
  kLoadFailed = 1,       // the server refused what the run needs, or no call was answered
  kLoadMissed = 4,       // a threshold was missed, or no rate met the goal
};

struct LoadStreams {
  std::ostream& out;
  std::ostream& err;
  bool err_is_terminal = false;
  const std::atomic<bool>* interrupted = nullptr;  // set = stop sending, and report; may be null
  std::string program = "/proc/self/exe";          // the program that --victims runs
};

// Runs `canopy_load` with `arguments`, without the program's name. Only one run at a time is
// allowed, because flags are global; each run starts with their defaults.
LoadExit RunLoad(absl::Span<const std::string> arguments, const LoadStreams& streams);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_RUN_LOAD_H_
