// Learns how many tokens one forward of a model may have from forwards that ran out of device
// memory, so that the next forwards are cut smaller instead of failing at the same size again.
//
// The rule: a forward of n tokens that does not fit sets the limit to n / 2. Forwards that fit and
// have at least half of the limit raise it: by an eighth, then by a quarter, then by a half, and
// after that it doubles. The limit is removed when it reaches the largest size that failed, or when
// new weights serve.
//
// Consecutive failures, without such a forward between them, form a chain. A chain means that one
// job was halved several times within milliseconds, and says little about the sizes between the
// first and the last failure. While the limit is below half of the first failed size of the last
// chain, each raise needs 8 forwards that fit; above it, 64. A device whose memory was briefly used
// by another process is therefore back at full forwards after at most about 200 forwards, however
// often the job was halved. On a device that is too small, about one large forward in 70 to 200
// fails.
#ifndef CORE_ENGINE_FORWARD_LIMIT_H_
#define CORE_ENGINE_FORWARD_LIMIT_H_

#include <cstdint>
#include <limits>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace canopy {

// Thread-safe.
class ForwardLimit {
 public:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

  // Returns the most tokens that a forward should have; kNone = any number.
  int64_t tokens() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Records that a forward of `tokens` ran out of memory. Returns whether this lowered the limit.
  bool RecordFailure(int64_t tokens) ABSL_LOCKS_EXCLUDED(mutex_);
  // Records that a forward of `tokens` ran.
  void RecordSuccess(int64_t tokens) ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes the limit, because other weights serve.
  void Reset() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable Mutex mutex_;
  int64_t tokens_ ABSL_GUARDED_BY(mutex_) = kNone;
  // the largest size that failed since the limit was set
  int64_t failed_tokens_ ABSL_GUARDED_BY(mutex_) = kNone;
  int64_t chain_tokens_ ABSL_GUARDED_BY(mutex_) = kNone;  // the first failed size of the last chain
  bool in_chain_ ABSL_GUARDED_BY(mutex_) = false;  // no forward has fitted since the last failure
  // forwards that fitted since the limit last changed
  int64_t num_successes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t rise_eighths_ ABSL_GUARDED_BY(mutex_) = 1;  // the next raise, in eighths of the limit
};

}  // namespace canopy

#endif  // CORE_ENGINE_FORWARD_LIMIT_H_
