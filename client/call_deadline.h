// Deadlines of calls on the monotonic clock.
#ifndef CLIENT_CALL_DEADLINE_H_
#define CLIENT_CALL_DEADLINE_H_

#include "absl/time/time.h"
#include "grpc/support/time.h"

namespace canopy::client {

// Returns the time point that is `duration` from now, limited to 292 years from now. The clock is
// monotonic, so that a step of the wall clock neither ends a call nor makes it wait for good.
// gRPC's own time type saturates where a std::chrono time point would overflow into the past.
inline gpr_timespec DeadlineAfter(absl::Duration duration) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(absl::ToInt64Nanoseconds(duration), GPR_TIMESPAN));
}

// Returns whether the time point has passed.
inline bool HasPassed(gpr_timespec deadline) {
  return gpr_time_cmp(deadline, gpr_now(deadline.clock_type)) <= 0;
}

}  // namespace canopy::client

#endif  // CLIENT_CALL_DEADLINE_H_
