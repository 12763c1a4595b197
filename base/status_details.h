// Facts that travel with an error beside its text: when to retry, and which of our reasons it is.
//
// The server turns them into google.rpc.RetryInfo and google.rpc.ErrorInfo; core knows no protobuf.
#ifndef BASE_STATUS_DETAILS_H_
#define BASE_STATUS_DETAILS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/error_reasons.h"

namespace canopy {

// The same error, marked as one that a client may repeat after `delay`. Whole milliseconds,
// limited to 0 .. 24 hours.
absl::Status WithRetryAfter(absl::Status status, absl::Duration delay);
// The delay that WithRetryAfter set, if it did.
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

// Returns an error with the code of `reason`.
absl::Status ErrorFor(ErrorReason reason, absl::string_view text);
// Returns the same error, whose code should be that of `reason`, with the reason.
absl::Status WithErrorReason(absl::Status status, ErrorReason reason);
// Returns the name of the reason of `status`, such as "QUEUE_FULL", or an empty string.
std::string ErrorReasonName(const absl::Status& status);

}  // namespace canopy

#endif  // BASE_STATUS_DETAILS_H_
