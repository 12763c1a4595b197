#include "core/engine/engine_errors.h"

#include "absl/strings/str_cat.h"
#include "base/status_details.h"

namespace canopy {

absl::Status UnhealthyError() {
  return ErrorFor(ErrorReason::kDeviceLost, "the device was lost; this server must be restarted");
}

absl::Status DeadlineError() {
  return absl::DeadlineExceededError("the deadline passed before the answer was there");
}

absl::Status DrainingError() { return ErrorFor(ErrorReason::kDraining, "draining"); }

absl::Status DisplacedError() {
  return ErrorFor(ErrorReason::kDisplaced,
                  "queue full: the place went to a client with fewer requests or a request of "
                  "higher priority");
}

absl::Status RefusalError(Refusal refusal, const JobRequest& request, const Scheduler& scheduler) {
  switch (refusal) {
    case Refusal::kQueuedRequests:
      return ErrorFor(
          ErrorReason::kQueueFull,
          absl::StrCat("queue full: ",
                       scheduler.queued_requests(Priority::kNormal) +
                           scheduler.queued_requests(Priority::kLow),
                       " requests wait, limit ", scheduler.options().max_queued_requests));
    case Refusal::kQueuedTokens:
      return ErrorFor(
          ErrorReason::kQueueTokensFull,
          absl::StrCat("queue full: ", scheduler.queued_tokens(), " computed tokens wait, and ",
                       request.tokens, " more exceed the limit ",
                       scheduler.options().max_queued_tokens));
    case Refusal::kDeadline:
      return ErrorFor(
          ErrorReason::kDeadlineTooShort,
          absl::StrCat("too busy: ", scheduler.queued_tokens(),
                       " computed tokens wait, and the request's deadline would pass among them"));
  }
  return absl::InternalError("an unknown refusal");
}

}  // namespace canopy
