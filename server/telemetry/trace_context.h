// W3C Trace Context, level 1: the metadata `traceparent` of a call.
#ifndef SERVER_TELEMETRY_TRACE_CONTEXT_H_
#define SERVER_TELEMETRY_TRACE_CONTEXT_H_

#include <optional>

#include "absl/strings/string_view.h"

namespace canopy::server {

inline constexpr char kTraceparentKey[] = "traceparent";

// Views of the text that it was read from.
struct TraceParent {
  absl::string_view trace_id;   // 32 lower-case hex digits, not all 0
  absl::string_view parent_id;  // 16, likewise: the caller's span
};

// What the specification calls valid: "00-TRACE-PARENT-FLAGS" in lower-case hex; of a later version
// its first 55 characters, which the end or a '-' follows. Nothing else: a malformed one is
// ignored.
std::optional<TraceParent> ParseTraceparent(absl::string_view text);

}  // namespace canopy::server

#endif  // SERVER_TELEMETRY_TRACE_CONTEXT_H_
