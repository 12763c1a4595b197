#include "server/shutdown_signals.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "base/logging.h"

namespace canopy::server {

ShutdownSignals::ShutdownSignals() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  // Whoever reads our output may go away; that is no reason to stop.
  std::signal(SIGPIPE, SIG_IGN);
  std::thread([this] { Loop(); }).detach();
}

void ShutdownSignals::Arm() {
  MutexLock lock(&mutex_);
  armed_ = true;
}

bool ShutdownSignals::Wait(absl::Duration timeout) {
  MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(Condition(&received_), timeout);
}

void ShutdownSignals::Loop() {
  while (true) {
    int signal = 0;
    sigwait(&signals_, &signal);
    LogInfo("signal", {{"number", signal}});
    MutexLock lock(&mutex_);
    // Without destructors: other threads are in the middle of things.
    if (received_) {
      _exit(kInterruptedExitCode);
    }
    if (!armed_) {
      _exit(EXIT_SUCCESS);
    }
    received_ = true;
  }
}

}  // namespace canopy::server
