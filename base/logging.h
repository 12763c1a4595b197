// One structured line an event on stderr: text for people or JSON for collectors.
//
//   LogWarning("route_fallback", {{"reason", "mask_budget"}, {"mask_bytes", 70'000'000}});
//
// Values never hold tokens, prompts or other contents of a request; the few texts that a client may
// choose, such as its request_id, are escaped like any other. At most so many lines of an event are
// written in a second (LogOptions); the next one that is says as `left_out` how many were not.
// Thread-safe.
#ifndef BASE_LOGGING_H_
#define BASE_LOGGING_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace canopy {

enum class LogFormat { kText, kJson };

// One key with its value, rendered when the line is.
class LogField {
 public:
  LogField(absl::string_view key, absl::string_view value)
      : key_(key), value_(value), quoted_(true) {}
  LogField(absl::string_view key, const char* value) : LogField(key, absl::string_view(value)) {}
  LogField(absl::string_view key, const std::string& value)
      : LogField(key, absl::string_view(value)) {}
  LogField(absl::string_view key, double value);
  LogField(absl::string_view key, bool value) : key_(key), value_(value ? "true" : "false") {}
  template <typename Integer, typename = std::enable_if_t<std::is_integral_v<Integer>>>
  LogField(absl::string_view key, Integer value) : key_(key), value_(std::to_string(value)) {}

  const std::string& key() const { return key_; }
  const std::string& value() const { return value_; }
  bool quoted() const { return quoted_; }

 private:
  std::string key_;
  std::string value_;
  bool quoted_ = false;
};

struct LogOptions {
  LogFormat format = LogFormat::kText;
  int32_t lines_per_second = 50;  // of one event, >= 0; 0 = no limit
};

// Process-wide; to be called at start-up, before other threads log.
void SetLogOptions(const LogOptions& options);
// Lines that the limit left out since the start.
int64_t LogLinesLeftOut();

// The longest part of a text from outside this process that a line shows: ids of clients, names of
// folders that they ask for, gRPC's complaints about their bytes.
inline constexpr size_t kMaxForeignTextBytes = 128;

// Returns `text`, or its first `max_bytes` bytes and "..." if it is longer. The logger escapes what
// is left.
std::string BoundedForLog(absl::string_view text, size_t max_bytes = kMaxForeignTextBytes);

// Writing blocks while whoever reads stderr does not: never call these with a mutex held that
// requests need. Returns whether the line was written.
bool LogInfo(absl::string_view event, absl::Span<const LogField> fields = {});
bool LogWarning(absl::string_view event, absl::Span<const LogField> fields = {});
bool LogError(absl::string_view event, absl::Span<const LogField> fields = {});
// So that fields may stand in braces.
bool LogInfo(absl::string_view event, std::initializer_list<LogField> fields);
bool LogWarning(absl::string_view event, std::initializer_list<LogField> fields);
bool LogError(absl::string_view event, std::initializer_list<LogField> fields);

// The line that would be written, without its time stamp and newline; for tests.
std::string FormatLogLine(LogFormat format, absl::string_view severity, absl::string_view event,
                          absl::Span<const LogField> fields);

}  // namespace canopy

#endif  // BASE_LOGGING_H_
