// How many tokens one forward of a model may have, learned from forwards that found no device
// memory, so that the next ones are cut smaller instead of failing at the same size again.
//
// The rule: a forward of n tokens that does not fit sets the limit to n / 2. Forwards that fit and
// have at least half of the limit let it rise again: by an eighth, then by a quarter, then by a
// half, and from then on it doubles. Once it reaches the largest size that failed, or new weights
// serve, there is no limit any more.
//
// Failures between which no such forward fitted are a chain: one job is cut in half and in half
// again within milliseconds, and says little about sizes between the first and the last. Below half
// of the size that failed first in the last chain, each step takes 8 forwards that fit, and from
// there on 64. So a device whose memory was taken by something else for a moment is back at full
// forwards after at most about 200, however often the job was cut, and on a device that is too
// small about one large forward in 70 to 200 fails.
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

  // The most tokens that a forward should have; kNone = any number.
  int64_t tokens() const ABSL_LOCKS_EXCLUDED(mutex_);

  // A forward of `tokens` found no memory. Returns whether the limit is now lower than before.
  bool RecordFailure(int64_t tokens) ABSL_LOCKS_EXCLUDED(mutex_);
  // A forward of `tokens` ran.
  void RecordSuccess(int64_t tokens) ABSL_LOCKS_EXCLUDED(mutex_);
  // Forgets everything: other weights serve.
  void Reset() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable Mutex mutex_;
  int64_t tokens_ ABSL_GUARDED_BY(mutex_) = kNone;
  int64_t failed_tokens_ ABSL_GUARDED_BY(mutex_) = kNone;  // the most since there is a limit
  int64_t chain_tokens_ ABSL_GUARDED_BY(mutex_) = kNone;   // that failed first in the last chain
  bool in_chain_ ABSL_GUARDED_BY(mutex_) = false;          // nothing fitted since the last failure
  int64_t num_successes_ ABSL_GUARDED_BY(mutex_) = 0;      // since the limit last changed
  int64_t rise_eighths_ ABSL_GUARDED_BY(mutex_) = 1;       // of the limit, when it next rises
};

}  // namespace canopy

#endif  // CORE_ENGINE_FORWARD_LIMIT_H_
