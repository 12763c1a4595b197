#include "server/rpc/worker_pool.h"

#include <utility>

namespace canopy::server {

WorkerPool::WorkerPool(int num_threads, size_t max_waiting) : max_waiting_(max_waiting) {
  threads_.reserve(static_cast<size_t>(num_threads));
  for (int i = 0; i < num_threads; ++i) {
    threads_.emplace_back([this] { Loop(); });
  }
}

WorkerPool::~WorkerPool() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

bool WorkerPool::Schedule(std::function<void()> task) {
  MutexLock lock(&mutex_);
  if (max_waiting_ > 0 && tasks_.size() >= max_waiting_) {
    return false;
  }
  tasks_.push_back(std::move(task));
  return true;
}

void WorkerPool::Loop() {
  while (true) {
    std::function<void()> task;
    {
      MutexLock lock(&mutex_);
      mutex_.Await(Condition(this, &WorkerPool::HasWork));
      if (tasks_.empty()) {
        return;
      }
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace canopy::server
