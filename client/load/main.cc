#include <unistd.h>

#include <atomic>
#include <csignal>
#include <iostream>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "client/load/run_load.h"

namespace {

std::atomic<bool> g_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set in a signal handler");

// The first signal stops the run; the second one ends the process.
void Interrupt(int signal) {
  g_interrupted = true;
  std::signal(signal, SIG_DFL);
}

}  // namespace

int main(int argc, char** argv) {
  canopy::DisableDeadlockDetection();
  std::signal(SIGINT, Interrupt);
  std::signal(SIGTERM, Interrupt);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return canopy::client::RunLoad(
      arguments, {std::cout, std::cerr, isatty(STDERR_FILENO) == 1, &g_interrupted});
}
