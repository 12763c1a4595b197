#include "server/telemetry/trace_context.h"

#include <cstddef>

#include "absl/algorithm/container.h"

namespace canopy::server {
namespace {

// The sizes of version, trace, parent and flags, without the dashes between them.
constexpr size_t kVersionSize = 2;
constexpr size_t kTraceStart = 3;
constexpr size_t kTraceSize = 32;
constexpr size_t kParentStart = 36;
constexpr size_t kParentSize = 16;
constexpr size_t kFlagsStart = 53;
constexpr size_t kFlagsSize = 2;
constexpr size_t kSize = 55;

bool IsHex(absl::string_view text) {
  return absl::c_all_of(text,
                        [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsId(absl::string_view text) {
  return IsHex(text) && text.find_first_not_of('0') != absl::string_view::npos;
}

}  // namespace

std::optional<TraceParent> ParseTraceparent(absl::string_view text) {
  if (text.size() < kSize || text[kTraceStart - 1] != '-' || text[kParentStart - 1] != '-' ||
      text[kFlagsStart - 1] != '-') {
    return std::nullopt;
  }
  const absl::string_view version = text.substr(0, kVersionSize);
  const bool right_size =
      version == "00" ? text.size() == kSize : text.size() == kSize || text[kSize] == '-';
  const TraceParent parent = {text.substr(kTraceStart, kTraceSize),
                              text.substr(kParentStart, kParentSize)};
  if (!IsHex(version) || version == "ff" || !right_size || !IsId(parent.trace_id) ||
      !IsId(parent.parent_id) || !IsHex(text.substr(kFlagsStart, kFlagsSize))) {
    return std::nullopt;
  }
  return parent;
}

}  // namespace canopy::server
