// Calls a function at a time that can be changed. Uses the monotonic clock, so jumps of the wall
// clock have no effect.
#ifndef BASE_ALARM_H_
#define BASE_ALARM_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

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
  void Loop();

  const std::function<void()> ring_;
  // The standard library's types are used because timed waits of absl use the wall clock.
  std::mutex mutex_;
  std::condition_variable changed_;
  TimePoint at_ = TimePoint::max();
  bool stopping_ = false;
  std::thread thread_;  // last member, because the thread uses all others
};

}  // namespace canopy

#endif  // BASE_ALARM_H_
