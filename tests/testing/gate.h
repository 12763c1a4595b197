// A door that a test opens by hand: what runs into it closed waits, and the test can wait until
// something does. Takes the place of sleeps.
#ifndef TESTS_TESTING_GATE_H_
#define TESTS_TESTING_GATE_H_

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace canopy::testing {

// Open when made. Thread-safe.
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

  // Lets one that waits, or comes next, pass a closed gate.
  void LetOnePass() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    ++permits_;
  }

  // Returns at once while open.
  void Pass() ABSL_LOCKS_EXCLUDED(mutex_) {
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

  // Returns once somebody waits in Pass.
  void AwaitWaiter() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    mutex_.Await(Condition(
        +[](Gate* gate) ABSL_EXCLUSIVE_LOCKS_REQUIRED(gate->mutex_) {
          return gate->waiting_ > 0 && !gate->open_ && gate->permits_ == 0;
        },
        this));
  }

  // The number of threads that wait in Pass.
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
