// The mutex, condition and notification that threads of ours meet on.
//
// They are absl's, but under ThreadSanitizer, which cannot look into Debian's abseil and would
// report every access under an absl::Mutex as a race. There they stand on the standard library's,
// whose locks it sees.
#ifndef BASE_MUTEX_H_
#define BASE_MUTEX_H_

#if !defined(__SANITIZE_THREAD__)

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace canopy {

using Condition = absl::Condition;
using Mutex = absl::Mutex;
using MutexLock = absl::MutexLock;
using Notification = absl::Notification;

}  // namespace canopy

#else

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace canopy {

// Evaluated with the mutex held, by the thread that waits.
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

// Each Unlock wakes all that wait: slow, and right.
class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    changed_.notify_all();
    mutex_.unlock();
  }

  void Await(const Condition& condition) {
    std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
    changed_.notify_all();
    changed_.wait(lock, [&condition] { return condition.Eval(); });
    lock.release();
  }

  bool AwaitWithTimeout(const Condition& condition, absl::Duration timeout) {
    std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
    changed_.notify_all();
    const bool holds = changed_.wait_for(
        lock,
        absl::ToChronoMilliseconds(std::clamp(timeout, absl::ZeroDuration(), absl::Hours(24))),
        [&condition] { return condition.Eval(); });
    lock.release();
    return holds;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
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

}  // namespace canopy

#endif

#endif  // BASE_MUTEX_H_
