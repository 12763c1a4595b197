// Waits for SIGTERM and SIGINT.
//
// A thread receives them with sigwait, so that nothing runs inside a signal handler. The first
// signal requests a shutdown; before Arm it ends the process at once, because nothing is being
// served yet. The second signal always ends the process at once.
#ifndef SERVER_SHUTDOWN_SIGNALS_H_
#define SERVER_SHUTDOWN_SIGNALS_H_

#include <csignal>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace canopy::server {

// The exit code after a second signal: calls in progress were lost.
inline constexpr int kInterruptedExitCode = 1;

// Create one before any other thread is started, because threads inherit the blocked signals. Lives
// as long as the process. Thread-safe.
class ShutdownSignals {
 public:
  ShutdownSignals();
  ShutdownSignals(const ShutdownSignals&) = delete;
  ShutdownSignals& operator=(const ShutdownSignals&) = delete;

  // From now on the first signal makes Wait return true.
  void Arm() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns whether a signal has arrived, after waiting up to `timeout` for one.
  bool Wait(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  [[noreturn]] void Loop() ABSL_LOCKS_EXCLUDED(mutex_);

  sigset_t signals_;
  Mutex mutex_;
  bool armed_ ABSL_GUARDED_BY(mutex_) = false;
  bool received_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace canopy::server

#endif  // SERVER_SHUTDOWN_SIGNALS_H_
