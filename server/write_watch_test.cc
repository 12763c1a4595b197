#include "server/write_watch.h"

#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "gtest/gtest.h"

namespace canopy::server {
namespace {

// Counts, and can be waited for.
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

TEST(WriteWatchTest, CutsAWriteThatIsNotTakenOnce) {
  Counter counted;
  WriteWatch watch(absl::Milliseconds(1), [&] { counted.Add(); });
  Counter cuts;
  WriteWatch::Writer stalled(&watch, [&] { cuts.Add(); });
  stalled.Started();
  counted.Await(1);
  EXPECT_EQ(cuts.count(), 1);
  stalled.Done();
  // Its next write has a time of its own.
  stalled.Started();
  counted.Await(2);
  EXPECT_EQ(cuts.count(), 2);
}

TEST(WriteWatchTest, LeavesAloneWhatIsTakenInTime) {
  Counter counted;
  WriteWatch watch(absl::Hours(1), [&] { counted.Add(); });
  WriteWatch::Writer writer(&watch, [] { FAIL() << "cut within its hour"; });
  for (int i = 0; i < 100; ++i) {
    writer.Started();
    writer.Done();
  }
  writer.Done();
  EXPECT_EQ(counted.count(), 0);
}

TEST(WriteWatchTest, WritersMayGoWhileTheyWrite) {
  Counter counted;
  WriteWatch watch(absl::Milliseconds(1), [&] { counted.Add(); });
  Counter cuts;
  WriteWatch::Writer last(&watch, [&] { cuts.Add(); });
  for (int i = 0; i < 1'000; ++i) {
    WriteWatch::Writer writer(&watch, [&] { cuts.Add(); });
    writer.Started();
  }
  const int before = cuts.count();
  last.Started();
  counted.Await(before + 1);
  EXPECT_EQ(cuts.count(), counted.count());
}

TEST(WriteWatchTest, ManyThreadsCutEachStalledWriterOnce) {
  constexpr int kThreads = 4;
  constexpr int kWriters = 500;
  Counter counted;
  WriteWatch watch(absl::Milliseconds(1), [&] { counted.Add(); });
  Counter cuts;
  std::vector<std::vector<std::unique_ptr<WriteWatch::Writer>>> writers(kThreads);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kWriters; ++i) {
        writers[thread].push_back(
            std::make_unique<WriteWatch::Writer>(&watch, [&] { cuts.Add(); }));
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

TEST(WriteWatchTest, ZeroIsForever) {
  WriteWatch watch(absl::ZeroDuration(), [] { FAIL(); });
  WriteWatch::Writer writer(&watch, [] { FAIL(); });
  writer.Started();
}

}  // namespace
}  // namespace canopy::server
