// Lets requests in only as far as host memory reaches.
//
// Each request pledges what it will take at most, from its arrival until its answer is written. The
// pledges of all are bounded, and near the limit of the process's control group fewer are let in.
#ifndef BASE_MEMORY_BUDGET_H_
#define BASE_MEMORY_BUDGET_H_

#include <chrono>
#include <cstdint>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/memory_use.h"
#include "base/mutex.h"

namespace canopy {

// What it counts, for metrics.
struct MemoryStats {
  MemoryUse use;
  int64_t pledged_bytes = 0;
  int64_t refused = 0;  // requests
};

// Thread-safe.
class MemoryBudget {
 public:
  // What one request may take. Thread-compatible. Gives it back when destroyed.
  class Pledge {
   public:
    // Of nothing at first. `budget` must outlive it.
    explicit Pledge(MemoryBudget* budget) : budget_(*budget) {}
    ~Pledge();
    Pledge(const Pledge&) = delete;
    Pledge& operator=(const Pledge&) = delete;

    // Sets its size. RESOURCE_EXHAUSTED with RetryAfter when it grows and there is no room: it then
    // stays as it was. What alone has a pledge is always let in, or a process whose limit is too
    // tight would answer nobody.
    absl::Status Resize(int64_t bytes);

   private:
    MemoryBudget& budget_;
    int64_t bytes_ = 0;
  };

  // `max_pledged_bytes` bounds the pledges of all requests. `read`, which may be null, is asked
  // now and then, on the threads that pledge.
  MemoryBudget(int64_t max_pledged_bytes, std::function<MemoryUse()> read);
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  MemoryStats stats() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status Change(int64_t from, int64_t to) ABSL_LOCKS_EXCLUDED(mutex_);
  void Refresh() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t max_pledged_bytes_;
  const std::function<MemoryUse()> read_;
  Mutex mutex_;
  int64_t pledged_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
  MemoryUse use_ ABSL_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point stale_at_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace canopy

#endif  // BASE_MEMORY_BUDGET_H_
