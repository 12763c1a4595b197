#include "server/net/write_watch.h"

#include <utility>

#include "base/saturating_time.h"

namespace canopy::server {

WriteWatch::Writer::Writer(WriteWatch* watch, std::function<void()> cut)
    : watch_(*watch), cut_(std::move(cut)) {}

void WriteWatch::Writer::Started() {
  if (watch_.timeout_ == absl::ZeroDuration()) {
    return;
  }
  MutexLock lock(&watch_.mutex_);
  due_ = SaturatingAdd(std::chrono::steady_clock::now(), watch_.timeout_);
  writing_ = true;
  place_ = watch_.writing_.insert(watch_.writing_.end(), this);
  if (!watch_.alarm_set_) {
    watch_.alarm_set_ = true;
    watch_.alarm_.SetAt(due_);
  }
}

void WriteWatch::Writer::Done() {
  if (watch_.timeout_ == absl::ZeroDuration()) {
    return;
  }
  MutexLock lock(&watch_.mutex_);
  if (writing_) {
    writing_ = false;
    watch_.writing_.erase(place_);
  }
}

WriteWatch::WriteWatch(absl::Duration timeout, std::function<void()> on_cut)
    : timeout_(timeout), on_cut_(std::move(on_cut)), alarm_([this] { Ring(); }) {}

void WriteWatch::Ring() {
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
