// Cuts calls whose client does not take what is written to it.
//
// HTTP/2's flow control holds an answer back for as long as its reader stalls, and keepalive finds
// nothing wrong with a client that lives: without a limit its answers would stay in memory for
// good.
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
  // One call. Thread-safe.
  class Writer {
   public:
    // `cut` is called at most once, on the watchdog's thread: it must not call this object, nor
    // wait for who does. `watchdog` must outlive the writer.
    Writer(WriteWatchdog* watchdog, std::function<void()> cut);
    // `cut` is not called afterwards.
    ~Writer() { Done(); }
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

    // A write is under way; one at a time.
    void Started() ABSL_LOCKS_EXCLUDED(watchdog_.mutex_);
    // It was taken, or the call has ended.
    void Done() ABSL_LOCKS_EXCLUDED(watchdog_.mutex_);

   private:
    friend class WriteWatchdog;

    WriteWatchdog& watchdog_;
    const std::function<void()> cut_;
    bool writing_ = false;  // guarded by the watchdog's mutex, as what follows
    std::chrono::steady_clock::time_point due_;
    std::list<Writer*>::iterator place_;
  };

  // A write may take `timeout`; zero = forever. `on_cut` is called after each cut, as that is.
  WriteWatchdog(absl::Duration timeout, std::function<void()> on_cut);
  WriteWatchdog(const WriteWatchdog&) = delete;
  WriteWatchdog& operator=(const WriteWatchdog&) = delete;

 private:
  void OnAlarm() ABSL_LOCKS_EXCLUDED(mutex_);

  const absl::Duration timeout_;
  const std::function<void()> on_cut_;
  Mutex mutex_;
  std::list<Writer*> writing_ ABSL_GUARDED_BY(mutex_);  // in the order of their instants
  // An alarm is set, at the latest for the first of them. It rings once a timeout at most.
  bool alarm_set_ ABSL_GUARDED_BY(mutex_) = false;
  Alarm alarm_;  // last: its thread uses everything above
};

}  // namespace canopy::server

#endif  // SERVER_NET_WRITE_WATCHDOG_H_
