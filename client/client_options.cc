#include "client/client_options.h"

#include "absl/strings/str_cat.h"

namespace canopy::client {

absl::Status ClientOptions::Validate() const {
  if (target.empty()) {
    return absl::InvalidArgumentError("target is empty");
  }
  if (deadline <= absl::ZeroDuration() || deadline == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("deadline ", absl::FormatDuration(deadline), " must be positive and finite"));
  }
  if (max_request_bytes < 1 || max_request_bytes > kMostRequestBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_request_bytes ", max_request_bytes, " must be 1 to ", kMostRequestBytes));
  }
  if (max_attempts < 1 || max_attempts > 5) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_attempts ", max_attempts, " must be 1 to 5"));
  }
  if (initial_backoff <= absl::ZeroDuration() || max_backoff < initial_backoff ||
      max_backoff == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("initial_backoff ", absl::FormatDuration(initial_backoff),
                     " must be positive and at most max_backoff ",
                     absl::FormatDuration(max_backoff), ", which must be finite"));
  }
  return absl::OkStatus();
}

}  // namespace canopy::client
