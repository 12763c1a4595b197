// A thread that calls back at an instant that may be moved, on the monotonic clock: jumps of the
// wall clock neither hasten nor delay it.
#ifndef BASE_ALARM_H_
#define BASE_ALARM_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace canopy {

// Thread-safe. The destructor waits for a call in progress; there is none afterwards.
class Alarm {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // `ring` is called on a thread of its own; it may call SetAt.
  explicit Alarm(std::function<void()> ring);
  ~Alarm();
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  // Rings once at `at`, in place of what was set before; max = not at all.
  void SetAt(TimePoint at);

 private:
  void Loop();

  const std::function<void()> ring_;
  // Not absl's: its timed waits follow the wall clock.
  std::mutex mutex_;
  std::condition_variable changed_;
  TimePoint at_ = TimePoint::max();
  bool stopping_ = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace canopy

#endif  // BASE_ALARM_H_
