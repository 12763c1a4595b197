#include "core/engine/forward_limit.h"

#include <algorithm>

namespace canopy {
namespace {

constexpr int64_t kSuccessesBeforeRise = 64;
// Applies while the limit is below half of the first failed size.
constexpr int64_t kSuccessesBeforeFastRise = 8;

}  // namespace

int64_t ForwardLimit::tokens() const {
  MutexLock lock(&mutex_);
  return tokens_;
}

bool ForwardLimit::RecordFailure(int64_t tokens) {
  MutexLock lock(&mutex_);
  num_successes_ = 0;
  rise_eighths_ = 1;
  failed_tokens_ = tokens_ == kNone ? tokens : std::max(failed_tokens_, tokens);
  const int64_t lower = std::max<int64_t>(tokens / 2, 1);
  if (lower >= tokens_) {
    return false;
  }
  if (!in_chain_ || tokens_ == kNone) {
    chain_tokens_ = tokens;
  }
  in_chain_ = true;
  tokens_ = lower;
  return true;
}

void ForwardLimit::RecordSuccess(int64_t tokens) {
  MutexLock lock(&mutex_);
  // Smaller forwards say nothing about the limit.
  if (tokens_ == kNone || tokens < tokens_ / 2) {
    return;
  }
  in_chain_ = false;
  const bool is_far_below = tokens_ < chain_tokens_ / 2;
  if (++num_successes_ < (is_far_below ? kSuccessesBeforeFastRise : kSuccessesBeforeRise)) {
    return;
  }
  num_successes_ = 0;
  tokens_ += std::max<int64_t>(tokens_ * rise_eighths_ / 8, 1);
  rise_eighths_ = std::min<int64_t>(2 * rise_eighths_, 8);
  if (tokens_ >= failed_tokens_) {
    tokens_ = kNone;
  }
}

void ForwardLimit::Reset() {
  MutexLock lock(&mutex_);
  tokens_ = kNone;
  failed_tokens_ = kNone;
  chain_tokens_ = kNone;
  in_chain_ = false;
  num_successes_ = 0;
  rise_eighths_ = 1;
}

}  // namespace canopy
