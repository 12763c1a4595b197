#include "server/rpc/worker_pool.h"

#include <atomic>
#include <vector>

#include "base/mutex.h"
#include "gtest/gtest.h"

namespace canopy::server {
namespace {

TEST(WorkerPoolTest, OneThreadRunsTasksInOrderAndFinishesThemBeforeItEnds) {
  std::vector<int> order;
  {
    WorkerPool thread(1, 0);
    for (int i = 0; i < 113; ++i) {
      ASSERT_TRUE(thread.Schedule([&order, i] { order.push_back(i); }));
    }
  }
  ASSERT_EQ(order.size(), 113U);
  for (int i = 0; i < 113; ++i) {
    EXPECT_EQ(order[i], i);
  }
}

TEST(WorkerPoolTest, RefusesMoreThanMayWait) {
  Notification started;
  Notification release;
  WorkerPool thread(1, 2);  // destroyed before the objects that its tasks use
  ASSERT_TRUE(thread.Schedule([&] {
    started.Notify();
    release.WaitForNotification();
  }));
  started.WaitForNotification();
  EXPECT_TRUE(thread.Schedule([] {}));
  EXPECT_TRUE(thread.Schedule([] {}));
  EXPECT_FALSE(thread.Schedule([] { FAIL() << "a refused task must not run"; }));
  release.Notify();
}

TEST(WorkerPoolTest, ALongTaskBlocksOnlyItsOwnThread) {
  Notification started;
  Notification release;
  Notification done;
  WorkerPool pool(2, 0);
  ASSERT_TRUE(pool.Schedule([&] {
    started.Notify();
    release.WaitForNotification();
  }));
  started.WaitForNotification();
  ASSERT_TRUE(pool.Schedule([&] { done.Notify(); }));
  done.WaitForNotification();
  release.Notify();
}

TEST(WorkerPoolTest, SeveralThreadsRunEachTaskOnce) {
  constexpr int kTasks = 1'000;
  std::vector<std::atomic<int>> runs(kTasks);
  {
    WorkerPool pool(4, 0);
    for (int i = 0; i < kTasks; ++i) {
      ASSERT_TRUE(pool.Schedule([&runs, i] { ++runs[i]; }));
    }
  }
  for (const std::atomic<int>& count : runs) {
    EXPECT_EQ(count, 1);
  }
}

}  // namespace
}  // namespace canopy::server
