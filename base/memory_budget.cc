#include "base/memory_budget.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_details.h"

namespace canopy {
namespace {

// Of the limit: the rest is for gRPC's buffers, what pledges leave out, and the kernel's own.
constexpr double kUsableShare = 0.9;
// Reading the group's files takes a tenth of a millisecond.
constexpr auto kReadInterval = std::chrono::milliseconds(20);
constexpr absl::Duration kRetryDelay = absl::Milliseconds(500);

}  // namespace

MemoryBudget::Pledge::~Pledge() {
  if (bytes_ > 0) {
    (void)budget_.Change(bytes_, 0);
  }
}

absl::Status MemoryBudget::Pledge::Resize(int64_t bytes) {
  absl::Status changed = budget_.Change(bytes_, bytes);
  if (changed.ok()) {
    bytes_ = bytes;
  }
  return changed;
}

MemoryBudget::MemoryBudget(int64_t max_pledged_bytes, std::function<MemoryUse()> read)
    : max_pledged_bytes_(max_pledged_bytes), read_(std::move(read)) {}

void MemoryBudget::Refresh() {
  const auto now = std::chrono::steady_clock::now();
  if (read_ && now >= stale_at_) {
    use_ = read_();
    stale_at_ = now + kReadInterval;
  }
}

absl::Status MemoryBudget::Change(int64_t from, int64_t to) {
  MutexLock lock(&mutex_);
  const int64_t others = pledged_bytes_ - from;
  if (to > from && others > 0) {
    Refresh();
    const bool is_full = to > max_pledged_bytes_ - others;
    // Pledges are counted beside what is used, though part of it is theirs: early is better than
    // late.
    const bool is_tight =
        use_.limit_bytes > 0 && static_cast<double>(use_.used_bytes + others + to) >
                                    kUsableShare * static_cast<double>(use_.limit_bytes);
    if (is_full || is_tight) {
      ++refused_;
      const std::string limit =
          is_full ? absl::StrCat("the limit ", max_pledged_bytes_)
                  : absl::StrCat("what is left of the process's limit ", use_.limit_bytes);
      return WithRetryAfter(ErrorFor(ErrorReason::kMemoryFull,
                                     absl::StrCat("memory: other requests may take ", others,
                                                  " bytes, and ", to, " more exceed ", limit)),
                            kRetryDelay);
    }
  }
  pledged_bytes_ = others + to;
  return absl::OkStatus();
}

MemoryStats MemoryBudget::stats() {
  MutexLock lock(&mutex_);
  Refresh();
  return {use_, pledged_bytes_, refused_};
}

}  // namespace canopy
