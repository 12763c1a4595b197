// The error texts of answer checks. A check returns the place relative to its own input (`.entropy:
// 3 instead of 4`), and its caller prepends its own place, so that nothing is formatted while
// answers are right.
#ifndef CLIENT_MISMATCH_H_
#define CLIENT_MISMATCH_H_

#include <cstdint>
#include <initializer_list>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace canopy::client {

template <typename... Parts>
absl::Status Mismatch(const Parts&... parts) {
  return absl::DataLossError(absl::StrCat(parts...));
}

inline absl::Status CheckCount(absl::string_view place, uint64_t count, uint64_t expected) {
  return count == expected ? absl::OkStatus()
                           : Mismatch(place, ": ", count, " instead of ", expected);
}

// Returns `status` with `place[index]` before its text.
inline absl::Status At(absl::string_view place, int index, const absl::Status& status) {
  return status.ok() ? status : Mismatch(place, "[", index, "]", status.message());
}

// Returns the first error of several checks.
inline absl::Status FirstError(std::initializer_list<absl::Status> statuses) {
  for (const absl::Status& status : statuses) {
    if (!status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace canopy::client

#endif  // CLIENT_MISMATCH_H_
