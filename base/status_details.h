// Additional information in an error status: the retry delay and one of our error reasons.
//
// The server converts it to google.rpc.RetryInfo and google.rpc.ErrorInfo; core does not use
// protobuf.
#ifndef BASE_STATUS_DETAILS_H_
#define BASE_STATUS_DETAILS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/error_reasons.h"

namespace canopy {

// Returns `status` with a hint that clients may retry after `delay`. The delay is cut to whole
// milliseconds and clamped to 0 .. 24 hours.
absl::Status WithRetryAfter(absl::Status status, absl::Duration delay);
// Returns the delay set by WithRetryAfter, or nullopt if there is none.
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

// Returns an error with `reason`, its status code and `text`.
absl::Status ErrorFor(ErrorReason reason, absl::string_view text);
// Returns `status` with `reason`. The code of `status` should be that of `reason`.
absl::Status WithErrorReason(absl::Status status, ErrorReason reason);
// Returns the name of the reason of `status`, such as "QUEUE_FULL", or "" if it has none.
std::string ErrorReasonName(const absl::Status& status);

}  // namespace canopy

#endif  // BASE_STATUS_DETAILS_H_
