#include "core/base/status_details.h"

#include <cstdint>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace canopy {
namespace {

constexpr char kRetryAfterKey[] = "canopy/retry_after_ms";
constexpr char kReasonKey[] = "canopy/reason";

}  // namespace

absl::Status WithRetryAfter(absl::Status status, absl::Duration delay) {
  status.SetPayload(kRetryAfterKey, absl::Cord(absl::StrCat(absl::ToInt64Milliseconds(delay))));
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

absl::Status WithErrorReason(absl::Status status, absl::string_view reason) {
  status.SetPayload(kReasonKey, absl::Cord(reason));
  return status;
}

std::string ErrorReason(const absl::Status& status) {
  const auto payload = status.GetPayload(kReasonKey);
  return payload.has_value() ? std::string(*payload) : std::string();
}

}  // namespace canopy
