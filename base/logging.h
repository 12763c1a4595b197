// Writes one structured line per event to stderr, as text for people or as JSON for log collectors.
//
//   LogWarning("route_fallback", {{"reason", "mask_budget"}, {"mask_bytes", 70'000'000}});
//
// Values must not contain tokens, prompts or other contents of a request. Texts that a client can
// choose, such as its request_id, are escaped like any other text. The number of lines per event
// and second is limited (LogOptions); after lines were left out, the next line has their number in
// its field `left_out`. Thread-safe.
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

// A key and its value, converted to text by the constructor.
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
  int32_t lines_per_second = 50;  // limit per event, >= 0; 0 = no limit
};

// Sets process-wide options. Call it at start-up, before other threads log.
void SetLogOptions(const LogOptions& options);
// Returns the number of lines that the limit left out since the start of the process.
int64_t LogLinesLeftOut();

// The maximum length of a text from outside this process in a log line, such as ids of clients,
// names of requested folders, and gRPC's error messages about their bytes.
inline constexpr size_t kMaxForeignTextBytes = 128;

// Returns `text`, or its first `max_bytes` bytes and "..." if it is longer. The result is not
// escaped; the logger does that.
std::string BoundedForLog(absl::string_view text, size_t max_bytes = kMaxForeignTextBytes);

// Write a log line, and return true if it was written. Writing blocks while the reader of stderr is
// slow, so never call these while holding a mutex that requests need.
bool LogInfo(absl::string_view event, absl::Span<const LogField> fields = {});
bool LogWarning(absl::string_view event, absl::Span<const LogField> fields = {});
bool LogError(absl::string_view event, absl::Span<const LogField> fields = {});
// Overloads that accept fields in braces.
bool LogInfo(absl::string_view event, std::initializer_list<LogField> fields);
bool LogWarning(absl::string_view event, std::initializer_list<LogField> fields);
bool LogError(absl::string_view event, std::initializer_list<LogField> fields);

// Returns the line that would be written, without its time stamp and newline, for tests.
std::string FormatLogLine(LogFormat format, absl::string_view severity, absl::string_view event,
                          absl::Span<const LogField> fields);

}  // namespace canopy

#endif  // BASE_LOGGING_H_
