#include "base/alarm.h"

#include <utility>

namespace canopy {

Alarm::Alarm(std::function<void()> ring) : ring_(std::move(ring)), thread_([this] { Loop(); }) {}

Alarm::~Alarm() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Alarm::SetAt(TimePoint at) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    at_ = at;
  }
  changed_.notify_one();
}

void Alarm::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    if (at_ == TimePoint::max()) {
      changed_.wait(lock);
    } else if (std::chrono::steady_clock::now() < at_) {
      changed_.wait_until(lock, at_);
    } else {
      at_ = TimePoint::max();
      lock.unlock();
      ring_();
      lock.lock();
    }
  }
}

}  // namespace canopy
