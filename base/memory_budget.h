// Admission of requests by host memory.
//
// Each request reserves the most memory that it will take, from its arrival until its answer is
// written. The sum of all reservations is bounded. Near the memory limit of the process's control
// group, reservations are refused earlier.
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

// The figures of a MemoryBudget, for metrics.
struct MemoryStats {
  MemoryUse use;
  int64_t reserved_bytes = 0;
  int64_t refused = 0;  // requests
};

// Thread-safe.
class MemoryBudget {
 public:
  // The memory that one request may take. The destructor releases it. Thread-compatible.
  class Reservation {
   public:
    // Reserves nothing yet. `budget` must outlive the reservation.
    explicit Reservation(MemoryBudget* budget) : budget_(*budget) {}
    ~Reservation();
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;

    // Sets the size of the reservation. Returns RESOURCE_EXHAUSTED with RetryAfter if the new size
    // is larger and does not fit; the size then stays unchanged. The only reservation of a budget
    // is always granted, or a process whose limit is too small would answer no request.
    absl::Status Resize(int64_t bytes);

   private:
    MemoryBudget& budget_;
    int64_t bytes_ = 0;
  };

  // `max_reserved_bytes` bounds the sum of all reservations. `read` returns the memory use of the
  // process; reservations call it from time to time, on their threads. It may be null.
  MemoryBudget(int64_t max_reserved_bytes, std::function<MemoryUse()> read);
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  MemoryStats stats() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status Change(int64_t from, int64_t to) ABSL_LOCKS_EXCLUDED(mutex_);
  void Refresh() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t max_reserved_bytes_;
  const std::function<MemoryUse()> read_;
  Mutex mutex_;
  int64_t reserved_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
  MemoryUse use_ ABSL_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point stale_at_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace canopy

#endif  // BASE_MEMORY_BUDGET_H_
