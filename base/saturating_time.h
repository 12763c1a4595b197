// Saturating arithmetic on time points of any standard clock.
//
// std::chrono counts nanoseconds in an int64, which spans 292 years in each direction. Adding a
// longer duration to "now" overflows and gives a time in the past, so a wait for it would end at
// once. Code that adds a duration from a user or client must use these functions. absl::Duration
// and absl::Time saturate by themselves.
#ifndef BASE_SATURATING_TIME_H_
#define BASE_SATURATING_TIME_H_

#include <chrono>

#include "absl/time/time.h"

namespace canopy {

// Returns `at` + `duration`, clamped to the range of the clock. TimePoint::max() means "never": it
// is returned unchanged, and is the result of any sum that is too large.
template <typename Clock>
std::chrono::time_point<Clock> SaturatingAdd(std::chrono::time_point<Clock> at,
                                             absl::Duration duration) {
  using TimePoint = std::chrono::time_point<Clock>;
  if (at == TimePoint::max()) {
    return at;
  }
  const absl::Duration since_epoch = absl::FromChrono(at.time_since_epoch()) + duration;
  return TimePoint(absl::ToChronoNanoseconds(since_epoch));
}

// Returns the time from `from` to `to`, which is negative if `to` comes first, and infinite if `to`
// is TimePoint::max().
template <typename Clock>
absl::Duration TimeBetween(std::chrono::time_point<Clock> from, std::chrono::time_point<Clock> to) {
  if (to == std::chrono::time_point<Clock>::max()) {
    return absl::InfiniteDuration();
  }
  return absl::FromChrono(to.time_since_epoch()) - absl::FromChrono(from.time_since_epoch());
}

}  // namespace canopy

#endif  // BASE_SATURATING_TIME_H_
