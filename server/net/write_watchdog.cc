#include "server/net/write_watchdog.h"

#include <utility>

#include "base/saturating_time.h"

namespace canopy::server {

WriteWatchdog::Writer::Writer(WriteWatchdog* watchdog, std::function<void()> cut)
    : watchdog_(*watchdog), cut_(std::move(cut)) {}

void WriteWatchdog::Writer::Started() {
  if (watchdog_.timeout_ == absl::ZeroDuration()) {
    return;
  }
  MutexLock lock(&watchdog_.mutex_);
  due_ = SaturatingAdd(std::chrono::steady_clock::now(), watchdog_.timeout_);
  writing_ = true;
  place_ = watchdog_.writing_.insert(watchdog_.writing_.end(), this);
  if (!watchdog_.alarm_set_) {
    watchdog_.alarm_set_ = true;
    watchdog_.alarm_.SetAt(due_);
  }
}

void WriteWatchdog::Writer::Done() {
  if (watchdog_.timeout_ == absl::ZeroDuration()) {
    return;
  }
  MutexLock lock(&watchdog_.mutex_);
  if (writing_) {
    writing_ = false;
    watchdog_.writing_.erase(place_);
  }
}

WriteWatchdog::WriteWatchdog(absl::Duration timeout, std::function<void()> on_cut)
    : timeout_(timeout), on_cut_(std::move(on_cut)), alarm_([this] { OnAlarm(); }) {}

void WriteWatchdog::OnAlarm() {
  MutexLock lock(&mutex_);
  const auto now = std::chrono::steady_clock::now();
  while (!writing_.empty() && writing_.front()->due_ <= now) {
    Writer* writer = writing_.front();
    writing_.pop_front();
    writer->writing_ = false;
    writer->cut_();
    on_cut_();
  }
  alarm_set_ = !writing_.empty();
  if (alarm_set_) {
    alarm_.SetAt(writing_.front()->due_);
  }
}

}  // namespace canopy::server
