// Blocks threads at a point that a test chooses. The test can wait until a thread is blocked there,
// which takes the place of sleeps.
#ifndef TESTS_TESTING_GATE_H_
#define TESTS_TESTING_GATE_H_

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace canopy::testing {

// A gate is open at first. Thread-safe.
class Gate {
 public:
  void Close() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    open_ = false;
  }

  void Open() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    open_ = true;
  }

  // Admits exactly one caller through the closed gate: a waiting one, or the next to arrive.
  void AdmitOne() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    ++permits_;
  }

  // Blocks while the gate is closed.
  void WaitUntilOpen() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    ++waiting_;
    mutex_.Await(Condition(
        +[](Gate* gate) ABSL_EXCLUSIVE_LOCKS_REQUIRED(gate->mutex_) {
          return gate->open_ || gate->permits_ > 0;
        },
        this));
    --waiting_;
    if (!open_) {
      --permits_;
    }
  }

  // Blocks until a thread waits in WaitUntilOpen.
  void AwaitWaiter() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    mutex_.Await(Condition(
        +[](Gate* gate) ABSL_EXCLUSIVE_LOCKS_REQUIRED(gate->mutex_) {
          return gate->waiting_ > 0 && !gate->open_ && gate->permits_ == 0;
        },
        this));
  }

  // Returns the number of threads that wait in WaitUntilOpen.
  int num_waiting() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return waiting_;
  }

 private:
  Mutex mutex_;
  bool open_ ABSL_GUARDED_BY(mutex_) = true;
  int permits_ ABSL_GUARDED_BY(mutex_) = 0;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace canopy::testing

#endif  // TESTS_TESTING_GATE_H_
