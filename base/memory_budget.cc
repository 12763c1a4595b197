#include "base/memory_budget.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_details.h"

namespace canopy {
namespace {

// The usable share of the control group's limit. The rest is for gRPC's buffers, for the kernel,
// and for everything that reservations do not count.
constexpr double kUsableShare = 0.9;
// Reading the files of the control group takes a tenth of a millisecond.
constexpr auto kReadInterval = std::chrono::milliseconds(20);
constexpr absl::Duration kRetryDelay = absl::Milliseconds(500);

}  // namespace

MemoryBudget::Reservation::~Reservation() {
  if (bytes_ > 0) {
    (void)budget_.Change(bytes_, 0);
  }
}

absl::Status MemoryBudget::Reservation::Resize(int64_t bytes) {
  absl::Status changed = budget_.Change(bytes_, bytes);
  if (changed.ok()) {
    bytes_ = bytes;
  }
  return changed;
}

MemoryBudget::MemoryBudget(int64_t max_reserved_bytes, std::function<MemoryUse()> read)
    : max_reserved_bytes_(max_reserved_bytes), read_(std::move(read)) {}

void MemoryBudget::Refresh() {
  const auto now = std::chrono::steady_clock::now();
  if (read_ && now >= stale_at_) {
    use_ = read_();
    stale_at_ = now + kReadInterval;
  }
}

absl::Status MemoryBudget::Change(int64_t from, int64_t to) {
  MutexLock lock(&mutex_);
  const int64_t others = reserved_bytes_ - from;
  if (to > from && others > 0) {
    Refresh();
    const bool is_full = to > max_reserved_bytes_ - others;
    // Memory that is reserved and already in use counts twice: it is safer to refuse too early
    // than too late.
    const bool is_tight =
        use_.limit_bytes > 0 && static_cast<double>(use_.used_bytes + others + to) >
                                    kUsableShare * static_cast<double>(use_.limit_bytes);
    if (is_full || is_tight) {
      ++refused_;
      const std::string limit =
          is_full ? absl::StrCat("the limit ", max_reserved_bytes_)
                  : absl::StrCat("what is left of the process's limit ", use_.limit_bytes);
      return WithRetryAfter(ErrorFor(ErrorReason::kMemoryFull,
                                     absl::StrCat("memory: other requests may take ", others,
                                                  " bytes, and ", to, " more exceed ", limit)),
                            kRetryDelay);
    }
  }
  reserved_bytes_ = others + to;
  return absl::OkStatus();
}

MemoryStats MemoryBudget::stats() {
  MutexLock lock(&mutex_);
  Refresh();
  return {use_, reserved_bytes_, refused_};
}

}  // namespace canopy
