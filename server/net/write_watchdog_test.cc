#include "server/net/write_watchdog.h"

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "gtest/gtest.h"

namespace canopy::server {
namespace {

using Clock = std::chrono::steady_clock;

// A counter with a wait.
class Counter {
 public:
  void Add() {
    MutexLock lock(&mutex_);
    ++count_;
  }
  void Await(int count) {
    MutexLock lock(&mutex_);
    const auto reached = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return count_ >= count; };
    mutex_.Await(Condition(&reached));
  }
  int count() {
    MutexLock lock(&mutex_);
    return count_;
  }

 private:
  Mutex mutex_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(WriteWatchdogTest, CutsAWriteThatIsNotTakenOnce) {
  Counter counted;
  WriteWatchdog watchdog(absl::Milliseconds(1), [&] { counted.Add(); });
  Counter cuts;
  WriteWatchdog::Writer stalled(&watchdog, [&] { cuts.Add(); });
  stalled.Started();
  counted.Await(1);
  EXPECT_EQ(cuts.count(), 1);
  stalled.Done();
  // The next write has a deadline of its own.
  stalled.Started();
  counted.Await(2);
  EXPECT_EQ(cuts.count(), 2);
}

TEST(WriteWatchdogTest, LeavesAloneWhatIsTakenInTime) {
  Counter counted;
  WriteWatchdog watchdog(absl::Hours(1), [&] { counted.Add(); });
  WriteWatchdog::Writer writer(&watchdog, [] { FAIL() << "cut within its hour"; });
  for (int i = 0; i < 100; ++i) {
    writer.Started();
    writer.Done();
  }
  writer.Done();
  EXPECT_EQ(counted.count(), 0);
}

TEST(WriteWatchdogTest, ATimeoutBeyondTheClockNeverCuts) {
  for (const absl::Duration timeout : {absl::Hours(99'999'999), absl::InfiniteDuration()}) {
    Counter cuts;
    WriteWatchdog watchdog(timeout, [&] { cuts.Add(); });
    WriteWatchdog::Writer writer(&watchdog, [] { FAIL() << "cut"; });
    // A timeout that overflows must not be due at once, or the alarm would fire before a later,
    // short one.
    writer.Started();
    Counter later;
    Alarm alarm([&] { later.Add(); });
    alarm.SetAt(Clock::now() + std::chrono::milliseconds(20));
    later.Await(1);
    EXPECT_EQ(cuts.count(), 0);
  }
}

// A write that was complete in time, or whose writer is gone, is not cut at a later write's
// deadline.
TEST(WriteWatchdogTest, WritersMayBeDestroyedDuringAWrite) {
  constexpr auto kTimeout = std::chrono::milliseconds(100);
  bool in_time = false;
  while (!in_time) {
    Counter counted;
    WriteWatchdog watchdog(absl::FromChrono(kTimeout), [&] { counted.Add(); });
    Counter cuts;
    Counter other_cuts;
    const auto begin = Clock::now();
    WriteWatchdog::Writer taken(&watchdog, [&] { other_cuts.Add(); });
    taken.Started();
    taken.Done();
    for (int i = 0; i < 100; ++i) {
      WriteWatchdog::Writer gone(&watchdog, [&] { other_cuts.Add(); });
      gone.Started();
    }
    // If the machine paused meanwhile, some writes were cut correctly.
    in_time = Clock::now() - begin < kTimeout;
    WriteWatchdog::Writer last(&watchdog, [&] { cuts.Add(); });
    last.Started();
    counted.Await(other_cuts.count() + 1);
    EXPECT_EQ(cuts.count(), 1);
    if (in_time) {
      EXPECT_EQ(other_cuts.count(), 0);
      EXPECT_EQ(counted.count(), 1);
    }
  }
}

TEST(WriteWatchdogTest, EachWriterIsCutAtItsOwnDeadline) {
  constexpr auto kTimeout = std::chrono::milliseconds(30);
  constexpr int kWriters = 20;
  Counter counted;
  std::vector<int> order;  // filled by the watchdog's thread
  std::vector<Clock::time_point> cut_at(kWriters);
  WriteWatchdog watchdog(absl::FromChrono(kTimeout), [&] { counted.Add(); });
  std::vector<std::unique_ptr<WriteWatchdog::Writer>> writers;
  std::vector<Clock::time_point> started_at;
  for (int i = 0; i < kWriters; ++i) {
    writers.push_back(std::make_unique<WriteWatchdog::Writer>(&watchdog, [&, i] {
      order.push_back(i);
      cut_at[i] = Clock::now();
    }));
    // The writes start at different times, so that they are due one after the other.
    while (!started_at.empty() && Clock::now() < started_at.back() + kTimeout / 10) {
      std::this_thread::yield();
    }
    started_at.push_back(Clock::now());
    writers.back()->Started();
  }
  counted.Await(kWriters);
  for (int i = 0; i < kWriters; ++i) {
    EXPECT_EQ(order[i], i);
    EXPECT_GE(cut_at[i] - started_at[i], kTimeout) << i;
  }
}

TEST(WriteWatchdogTest, OtherWritesDoNotDelayACut) {
  // The timeout is longer than any pause of this thread.
  constexpr auto kTimeout = std::chrono::milliseconds(300);
  constexpr auto kGiveUp = std::chrono::seconds(6);
  Counter cuts;
  WriteWatchdog watchdog(absl::FromChrono(kTimeout), [] {});
  WriteWatchdog::Writer stalled(&watchdog, [&] { cuts.Add(); });
  WriteWatchdog::Writer lively(&watchdog, [] {});
  stalled.Started();
  const auto begin = Clock::now();
  while (cuts.count() == 0 && Clock::now() < begin + kGiveUp) {
    lively.Started();
    lively.Done();
  }
  EXPECT_EQ(cuts.count(), 1);
}

TEST(WriteWatchdogTest, ManyThreadsCutEachStalledWriterOnce) {
  constexpr int kThreads = 4;
  constexpr int kWriters = 500;
  Counter counted;
  WriteWatchdog watchdog(absl::Milliseconds(1), [&] { counted.Add(); });
  Counter cuts;
  std::vector<std::vector<std::unique_ptr<WriteWatchdog::Writer>>> writers(kThreads);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kWriters; ++i) {
        writers[thread].push_back(
            std::make_unique<WriteWatchdog::Writer>(&watchdog, [&] { cuts.Add(); }));
        writers[thread].back()->Started();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  counted.Await(kThreads * kWriters);
  EXPECT_EQ(cuts.count(), kThreads * kWriters);
}

TEST(WriteWatchdogTest, ZeroIsForever) {
  WriteWatchdog watchdog(absl::ZeroDuration(), [] { FAIL(); });
  WriteWatchdog::Writer writer(&watchdog, [] { FAIL(); });
  writer.Started();
  // Waits until another write is cut, and a little longer.
  Counter counted;
  WriteWatchdog other_watch(absl::Milliseconds(1), [&] { counted.Add(); });
  WriteWatchdog::Writer other(&other_watch, [] {});
  for (int cut = 1; cut <= 20; ++cut) {
    other.Started();
    counted.Await(cut);
  }
}

}  // namespace
}  // namespace canopy::server
