// SIGTERM and SIGINT as something to wait for.
//
// A thread takes them with sigwait, so that nothing runs inside a signal handler. The first one
// asks for a shutdown; until Arm it ends the process at once, since nothing is being served yet.
// The second one always does.
#ifndef SERVER_SHUTDOWN_SIGNALS_H_
#define SERVER_SHUTDOWN_SIGNALS_H_

#include <csignal>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace canopy::server {

// Exit code of a second signal: calls in flight were lost.
inline constexpr int kInterruptedExitCode = 1;

// Make one, before any other thread is started: those inherit the blocked signals. Lives as long as
// the process. Thread-safe.
class ShutdownSignals {
 public:
  ShutdownSignals();
  ShutdownSignals(const ShutdownSignals&) = delete;
  ShutdownSignals& operator=(const ShutdownSignals&) = delete;

  // From now on the first signal is for Wait.
  void Arm() ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether a signal has come, waiting for one up to `timeout`.
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
