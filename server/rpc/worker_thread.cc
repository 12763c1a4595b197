#include "server/rpc/worker_thread.h"

#include <utility>

namespace canopy::server {

WorkerThread::WorkerThread(size_t max_waiting)
    : max_waiting_(max_waiting), thread_([this] { Loop(); }) {}

WorkerThread::~WorkerThread() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

bool WorkerThread::Schedule(std::function<void()> task) {
  MutexLock lock(&mutex_);
  if (max_waiting_ > 0 && tasks_.size() >= max_waiting_) {
    return false;
  }
  tasks_.push_back(std::move(task));
  return true;
}

void WorkerThread::Loop() {
  while (true) {
    std::function<void()> task;
    {
      MutexLock lock(&mutex_);
      mutex_.Await(Condition(this, &WorkerThread::HasWork));
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
