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

namespace canopy {

// The same error, marked as one that a client may repeat after `delay`. Whole milliseconds,
// limited to 0 .. 24 hours.
absl::Status WithRetryAfter(absl::Status status, absl::Duration delay);
// The delay that WithRetryAfter set, if it did.
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

// The same error with a stable name for programs, such as "PATH_TOO_LARGE_FOR_DEVICE".
absl::Status WithErrorReason(absl::Status status, absl::string_view reason);
// The name that WithErrorReason set, or an empty string.
std::string ErrorReason(const absl::Status& status);

}  // namespace canopy

#endif  // BASE_STATUS_DETAILS_H_
