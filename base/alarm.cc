#include "base/alarm.h"

#include <utility>

namespace canopy {

Alarm::Alarm(std::function<void()> ring) : ring_(std::move(ring)), thread_([this] { Loop(); }) {}

Alarm::~Alarm() {
  mutex_.Lock();
  stopping_ = true;
  mutex_.Unlock();
  mutex_.SignalAll();
  thread_.join();
}

void Alarm::SetAt(TimePoint at) {
  mutex_.Lock();
  at_ = at;
  mutex_.Unlock();
  mutex_.SignalAll();
}

void Alarm::SteadyMutex::WaitUntil(TimePoint end) {
  std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
  if (end == TimePoint::max()) {
    changed_.wait(lock);
  } else {
    changed_.wait_until(lock, end);
  }
  lock.release();
}

void Alarm::Loop() {
  mutex_.Lock();
  while (!stopping_) {
    if (at_ == TimePoint::max() || std::chrono::steady_clock::now() < at_) {
      mutex_.WaitUntil(at_);
      continue;
    }
    at_ = TimePoint::max();
    mutex_.Unlock();
    ring_();
    mutex_.Lock();
  }
  mutex_.Unlock();
}

}  // namespace canopy
