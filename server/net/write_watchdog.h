// Cuts calls whose client does not read.
//
// HTTP/2's flow control holds an answer back as long as its reader stalls, and keepalive finds
// nothing wrong with a client that is alive. Without a time limit such answers would stay in memory
// for good.
#ifndef SERVER_NET_WRITE_WATCHDOG_H_
#define SERVER_NET_WRITE_WATCHDOG_H_

#include <chrono>
#include <functional>
#include <list>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/alarm.h"
#include "base/mutex.h"

namespace canopy::server {

// Thread-safe.
class WriteWatchdog {
 public:
  // The writes of one call. Thread-safe.
  class Writer {
   public:
    // `cut` is called at most once, on the watchdog's thread. It must neither call this object nor
    // wait for a thread that does. `watchdog` must outlive the writer.
    Writer(WriteWatchdog* watchdog, std::function<void()> cut);
    // `cut` is not called after the destructor has returned.
    ~Writer() { Done(); }
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

    // Records that a write has started. Only one write is in progress at a time.
    void Started() ABSL_LOCKS_EXCLUDED(watchdog_.mutex_);
    // Records that the write is complete, or that the call has ended.
    void Done() ABSL_LOCKS_EXCLUDED(watchdog_.mutex_);

   private:
    friend class WriteWatchdog;

    WriteWatchdog& watchdog_;
    const std::function<void()> cut_;
    bool writing_ = false;  // the watchdog's mutex guards it and the members below
    std::chrono::steady_clock::time_point due_;
    std::list<Writer*>::iterator place_;
  };

  // A write may take `timeout`; zero = no limit. `on_cut` is called after each cut, on the same
  // thread.
  WriteWatchdog(absl::Duration timeout, std::function<void()> on_cut);
  WriteWatchdog(const WriteWatchdog&) = delete;
  WriteWatchdog& operator=(const WriteWatchdog&) = delete;

 private:
  void OnAlarm() ABSL_LOCKS_EXCLUDED(mutex_);

  const absl::Duration timeout_;
  const std::function<void()> on_cut_;
  Mutex mutex_;
  std::list<Writer*> writing_ ABSL_GUARDED_BY(mutex_);  // ordered by their deadlines
  // True if an alarm is set, at the latest for the first writer. It fires at most once per timeout.
  bool alarm_set_ ABSL_GUARDED_BY(mutex_) = false;
  Alarm alarm_;  // last, because its thread uses everything above
};

}  // namespace canopy::server

#endif  // SERVER_NET_WRITE_WATCHDOG_H_
