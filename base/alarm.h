// Calls a function at a time that can be changed. Uses the monotonic clock, so jumps of the wall
// clock have no effect.
#ifndef BASE_ALARM_H_
#define BASE_ALARM_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/base/thread_annotations.h"

namespace canopy {

// Thread-safe. The destructor waits for a call in progress; there are no calls afterwards.
class Alarm {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Calls `ring` on the alarm's own thread. `ring` may call SetAt.
  explicit Alarm(std::function<void()> ring);
  ~Alarm();
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  // Makes the alarm ring once at `at` and cancels the time set before. TimePoint::max() means
  // never.
  void SetAt(TimePoint at);

 private:
  // A mutex with waits on the monotonic clock. Timed waits of base/mutex.h use the wall clock.
  class ABSL_LOCKABLE SteadyMutex {
   public:
    void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
    void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
    // Unlocks and waits until SignalAll is called or `end` has passed. Spurious wake-ups are
    // possible.
    void WaitUntil(TimePoint end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(this);
    void SignalAll() { changed_.notify_all(); }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
  };

  void Loop();

  const std::function<void()> ring_;
  SteadyMutex mutex_;
  TimePoint at_ ABSL_GUARDED_BY(mutex_) = TimePoint::max();
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last member, because the thread uses all others
};

}  // namespace canopy

#endif  // BASE_ALARM_H_
