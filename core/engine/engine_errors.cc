#include "core/engine/engine_errors.h"

#include "absl/strings/str_cat.h"
#include "base/status_details.h"

namespace canopy {

absl::Status UnhealthyError() {
  return WithErrorReason(
      absl::UnavailableError("the device was lost; this server must be restarted"), "DEVICE_LOST");
}

absl::Status DeadlineError() {
  return absl::DeadlineExceededError("the deadline passed before the answer was there");
}

absl::Status DrainingError() {
  return WithErrorReason(absl::UnavailableError("draining"), "DRAINING");
}

absl::Status DisplacedError() {
  return WithErrorReason(
      absl::ResourceExhaustedError("queue full: the place went to a client with fewer requests or "
                                   "a request of higher priority"),
      "DISPLACED");
}

absl::Status RefusalError(Refusal refusal, const JobRequest& request, const Scheduler& scheduler) {
  switch (refusal) {
    case Refusal::kQueuedRequests:
      return WithErrorReason(
          absl::ResourceExhaustedError(absl::StrCat("queue full: ",
                                                    scheduler.queued_requests(Priority::kNormal) +
                                                        scheduler.queued_requests(Priority::kLow),
                                                    " requests wait, limit ",
                                                    scheduler.options().max_queued_requests)),
          "QUEUE_FULL");
    case Refusal::kQueuedTokens:
      return WithErrorReason(
          absl::ResourceExhaustedError(absl::StrCat(
              "queue full: ", scheduler.queued_tokens(), " computed tokens wait, and ",
              request.tokens, " more exceed the limit ", scheduler.options().max_queued_tokens)),
          "QUEUE_TOKENS_FULL");
    case Refusal::kDeadline:
      return WithErrorReason(
          absl::ResourceExhaustedError(absl::StrCat(
              "too busy: ", scheduler.queued_tokens(),
              " computed tokens wait, and the request's deadline would pass among them")),
          "DEADLINE_TOO_SHORT");
  }
  return absl::InternalError("an unknown refusal");
}

}  // namespace canopy
