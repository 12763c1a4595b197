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
  // A reader of the output that goes away must not stop the server.
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
    // Destructors must not run, because other threads still use their objects.
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
