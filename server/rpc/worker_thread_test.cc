#include "server/rpc/worker_thread.h"

#include <vector>

#include "base/mutex.h"
#include "gtest/gtest.h"

namespace canopy::server {
namespace {

TEST(WorkerThreadTest, RunsTasksInOrderAndFinishesThemBeforeItEnds) {
  std::vector<int> order;
  {
    WorkerThread thread(0);
    for (int i = 0; i < 113; ++i) {
      ASSERT_TRUE(thread.Schedule([&order, i] { order.push_back(i); }));
    }
  }
  ASSERT_EQ(order.size(), 113U);
  for (int i = 0; i < 113; ++i) {
    EXPECT_EQ(order[i], i);
  }
}

TEST(WorkerThreadTest, RefusesMoreThanMayWait) {
  Notification started;
  Notification release;
  WorkerThread thread(2);  // gone before what its tasks use
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

}  // namespace
}  // namespace canopy::server
