#include "base/status_details.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace canopy {
namespace {

constexpr char kRetryAfterKey[] = "canopy/retry_after_ms";
constexpr char kReasonKey[] = "canopy/reason";

// google.protobuf.Duration carries the delay on the wire and is limited to 10,000 years. Delays of
// more than a day would not be more useful to clients.
constexpr absl::Duration kLongestRetryDelay = absl::Hours(24);

}  // namespace

absl::Status WithRetryAfter(absl::Status status, absl::Duration delay) {
  const absl::Duration limited = std::clamp(delay, absl::ZeroDuration(), kLongestRetryDelay);
  status.SetPayload(kRetryAfterKey, absl::Cord(absl::StrCat(absl::ToInt64Milliseconds(limited))));
  return status;
}

std::optional<absl::Duration> RetryAfter(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryAfterKey);
  int64_t delay_ms = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &delay_ms)) {
    return std::nullopt;
  }
  return absl::Milliseconds(delay_ms);
}

absl::Status ErrorFor(ErrorReason reason, absl::string_view text) {
  return WithErrorReason(absl::Status(RowOf(kErrorReasons, reason).code, text), reason);
}

absl::Status WithErrorReason(absl::Status status, ErrorReason reason) {
  status.SetPayload(kReasonKey, absl::Cord(RowOf(kErrorReasons, reason).name));
  return status;
}

std::string ErrorReasonName(const absl::Status& status) {
  const auto payload = status.GetPayload(kReasonKey);
  return payload.has_value() ? std::string(*payload) : std::string();
}

}  // namespace canopy
