// W3C Trace Context, level 1: the metadata `traceparent` of a call.
#ifndef SERVER_TELEMETRY_TRACE_CONTEXT_H_
#define SERVER_TELEMETRY_TRACE_CONTEXT_H_

#include <optional>

#include "absl/strings/string_view.h"

namespace canopy::server {

inline constexpr char kTraceparentKey[] = "traceparent";

// Views of the parsed text.
struct TraceParent {
  absl::string_view trace_id;   // 32 lower-case hex digits, not all 0
  absl::string_view parent_id;  // the caller's span: 16 lower-case hex digits, not all 0
};

// Parses "00-TRACE-PARENT-FLAGS" in lower-case hex. Of a later version the first 55 characters are
// parsed; the end or a '-' must follow them. Returns nullopt for any other text, because the
// specification requires that it is ignored.
std::optional<TraceParent> ParseTraceparent(absl::string_view text);

}  // namespace canopy::server

#endif  // SERVER_TELEMETRY_TRACE_CONTEXT_H_
