// The mutex, condition variable, notification and counter that all code of this repository uses.
//
// They are abseil's types, except under ThreadSanitizer. Debian's abseil is not instrumented, so
// ThreadSanitizer cannot see its locks and would report every access under an absl::Mutex as a
// race. There the types are built on the standard library's locks, which ThreadSanitizer sees.
//
// HandOver and TakeOver tell ThreadSanitizer about an order that an uninstrumented library
// guarantees.
#ifndef BASE_MUTEX_H_
#define BASE_MUTEX_H_

#if !defined(__SANITIZE_THREAD__)

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace canopy {

using BlockingCounter = absl::BlockingCounter;
using CondVar = absl::CondVar;
using Condition = absl::Condition;
using Mutex = absl::Mutex;
using MutexLock = absl::MutexLock;
using Notification = absl::Notification;

inline void HandOver(const void* /*object*/) {}
inline void TakeOver(const void* /*object*/) {}

// Turns off abseil's deadlock detection. Debian's abseil updates one global graph under one lock at
// each lock operation, including those of gRPC. Call this once at the start of a program that
// handles many requests.
inline void DisableDeadlockDetection() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

}  // namespace canopy

#else

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

extern "C" void __tsan_acquire(void* object);
extern "C" void __tsan_release(void* object);

namespace canopy {

// Everything that this thread did before HandOver(object) happens before everything that another
// thread does after TakeOver(object).
inline void HandOver(const void* object) { __tsan_release(const_cast<void*>(object)); }
inline void TakeOver(const void* object) { __tsan_acquire(const_cast<void*>(object)); }

inline void DisableDeadlockDetection() {}

// The waiting thread evaluates the condition while it holds the mutex.
class Condition {
 public:
  template <typename T>
  Condition(bool (*function)(T*), T* argument)
      : holds_([function, argument] { return function(argument); }) {}
  template <typename T>
  Condition(T* object, bool (T::*method)())
      : holds_([object, method] { return (object->*method)(); }) {}
  template <typename T>
  Condition(const T* object, bool (T::*method)() const)
      : holds_([object, method] { return (object->*method)(); }) {}
  explicit Condition(const bool* flag) : holds_([flag] { return *flag; }) {}
  template <typename Callable>
  explicit Condition(const Callable* callable) : holds_([callable] { return (*callable)(); }) {}

  bool Eval() const { return holds_(); }

 private:
  std::function<bool()> holds_;
};

// Each Unlock wakes all waiting threads. This is correct but slow, and used only under
// ThreadSanitizer.
class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  explicit Mutex(absl::ConstInitType /*static_lifetime*/) {}

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    changed_.notify_all();
    mutex_.unlock();
  }
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

  void Await(const Condition& condition) {
    std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
    changed_.notify_all();
    changed_.wait(lock, [&condition] { return condition.Eval(); });
    lock.release();
  }

  bool AwaitWithTimeout(const Condition& condition, absl::Duration timeout) {
    std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
    changed_.notify_all();
    const bool holds =
        changed_.wait_for(lock, Bounded(timeout), [&condition] { return condition.Eval(); });
    lock.release();
    return holds;
  }

  bool AwaitWithDeadline(const Condition& condition, absl::Time deadline) {
    return AwaitWithTimeout(condition, deadline - absl::Now());
  }

 private:
  friend class CondVar;

  static std::chrono::milliseconds Bounded(absl::Duration timeout) {
    return absl::ToChronoMilliseconds(std::clamp(timeout, absl::ZeroDuration(), absl::Hours(24)));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
};

// Waits on the mutex itself, so every Unlock wakes the waiting thread. Callers of a CondVar must
// expect such spurious wake-ups anyway.
class CondVar {
 public:
  void SignalAll() {}

  // Returns true if the wait timed out.
  bool WaitWithTimeout(Mutex* mutex, absl::Duration timeout) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    mutex->changed_.notify_all();
    const auto status = mutex->changed_.wait_for(lock, Mutex::Bounded(timeout));
    lock.release();
    return status == std::cv_status::timeout;
  }
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(*mutex) {
    mutex_.Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class Notification {
 public:
  bool HasBeenNotified() const {
    MutexLock lock(&mutex_);
    return notified_;
  }
  void WaitForNotification() const {
    MutexLock lock(&mutex_);
    mutex_.Await(Condition(&notified_));
  }
  void Notify() {
    MutexLock lock(&mutex_);
    notified_ = true;
  }

 private:
  mutable Mutex mutex_;
  bool notified_ ABSL_GUARDED_BY(mutex_) = false;
};

class BlockingCounter {
 public:
  explicit BlockingCounter(int initial_count) : count_(initial_count) {}

  // Returns true if this call decremented the counter to 0.
  bool DecrementCount() {
    MutexLock lock(&mutex_);
    return --count_ == 0;
  }
  void Wait() {
    MutexLock lock(&mutex_);
    mutex_.Await(Condition(
        +[](int* count) { return *count == 0; }, &count_));
  }

 private:
  Mutex mutex_;
  int count_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace canopy

#endif

#endif  // BASE_MUTEX_H_
