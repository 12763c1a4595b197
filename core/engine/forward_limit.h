// How many tokens one forward of a model may have, learned from forwards that found no device
// memory, so that the next ones are cut smaller instead of failing at the same size again.
//
// The rule: a forward of n tokens that does not fit sets the limit to n / 2. After 64 forwards in
// a row that fit and have at least half of the limit, the limit rises by an eighth, 64 later by a
// quarter, then by a half, and from then on it doubles. Once it reaches the largest size that
// failed, or new weights serve, there is no limit any more. So a device whose memory was taken by
// something else for a while is back at full forwards after a few hundred, and on one that is too
// small one large forward in two hundred fails.
#ifndef CORE_ENGINE_FORWARD_LIMIT_H_
#define CORE_ENGINE_FORWARD_LIMIT_H_

#include <cstdint>
#include <limits>

#include "absl/base/thread_annotations.h"
#include "core/base/mutex.h"

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
  void RecordFit(int64_t tokens) ABSL_LOCKS_EXCLUDED(mutex_);
  // Forgets everything: other weights serve.
  void Reset() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable Mutex mutex_;
  int64_t tokens_ ABSL_GUARDED_BY(mutex_) = kNone;
  int64_t failed_tokens_ ABSL_GUARDED_BY(mutex_) = kNone;  // the most since there is a limit
  int64_t num_fits_ ABSL_GUARDED_BY(mutex_) = 0;           // since the limit last changed
  int64_t rise_eighths_ ABSL_GUARDED_BY(mutex_) = 1;       // of the limit, when it next rises
};

}  // namespace canopy

#endif  // CORE_ENGINE_FORWARD_LIMIT_H_
