// One thread that runs tasks in order: work that belongs neither on gRPC's threads nor on the
// device's.
#ifndef SERVER_RPC_WORKER_THREAD_H_
#define SERVER_RPC_WORKER_THREAD_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace canopy::server {

// Thread-safe. The destructor runs what was accepted, then joins.
class WorkerThread {
 public:
  // `max_waiting`: tasks that may wait; 0 = any number.
  explicit WorkerThread(size_t max_waiting);
  ~WorkerThread() ABSL_LOCKS_EXCLUDED(mutex_);
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

  // False when too many wait; `task` is then dropped without being run.
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
  std::thread thread_;  // last: it uses everything above
};

}  // namespace canopy::server

#endif  // SERVER_RPC_WORKER_THREAD_H_
