// Threads that run tasks in order of arrival: work for neither gRPC's threads nor the device's.
#ifndef SERVER_RPC_WORKER_POOL_H_
#define SERVER_RPC_WORKER_POOL_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace canopy::server {

// Thread-safe. The destructor runs the accepted tasks, then joins.
class WorkerPool {
 public:
  // `num_threads` is at least 1; each thread finishes a task before it starts the next.
  // `max_waiting` bounds the tasks that wait for a thread; 0 = no bound.
  WorkerPool(int num_threads, size_t max_waiting);
  ~WorkerPool() ABSL_LOCKS_EXCLUDED(mutex_);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Returns false, and drops the task, if too many tasks wait.
  [[nodiscard]] bool Schedule(std::function<void()> task) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !tasks_.empty();
  }

  const size_t max_waiting_;
  Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last, because they use everything above
};

}  // namespace canopy::server

#endif  // SERVER_RPC_WORKER_POOL_H_
