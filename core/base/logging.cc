#include "core/base/logging.h"

#include <atomic>
#include <cstdio>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace canopy {
namespace {

std::atomic<LogFormat> g_format{LogFormat::kText};

// JSON string escapes; bytes outside printable ASCII become \u00XX so that a line is always valid.
std::string JsonQuoted(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      absl::StrAppendFormat(&quoted, "\\u%04x", byte);
    } else {
      quoted += c;
    }
  }
  quoted += '"';
  return quoted;
}

// Quotes only where a reader or a splitting tool would stumble.
std::string TextValue(absl::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte >= 0x7f || c == '"' || c == '=') {
      return JsonQuoted(text);
    }
  }
  return text.empty() ? "\"\"" : std::string(text);
}

void Write(absl::string_view severity, absl::string_view event,
           std::initializer_list<LogField> fields) {
  const LogFormat format = g_format.load(std::memory_order_relaxed);
  const std::string time =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
  const std::string body = FormatLogLine(format, severity, event, fields);
  const std::string line = format == LogFormat::kJson
                               ? absl::StrCat("{\"time\":\"", time, "\",", body.substr(1), "\n")
                               : absl::StrCat(time, " ", body, "\n");
  // One call, so that lines of several threads do not mix.
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

LogField::LogField(absl::string_view key, double value)
    : key_(key), value_(absl::StrFormat("%.6g", value)) {
  // JSON has no number for these.
  quoted_ = value_.find_first_of("ni") != std::string::npos;
}

void SetLogFormat(LogFormat format) { g_format.store(format, std::memory_order_relaxed); }

std::string FormatLogLine(LogFormat format, absl::string_view severity, absl::string_view event,
                          std::initializer_list<LogField> fields) {
  if (format == LogFormat::kJson) {
    std::string line =
        absl::StrCat("{\"severity\":\"", severity, "\",\"event\":", JsonQuoted(event));
    for (const LogField& field : fields) {
      absl::StrAppend(&line, ",", JsonQuoted(field.key()), ":",
                      field.quoted() ? JsonQuoted(field.value()) : field.value());
    }
    return line + "}";
  }
  std::string line = absl::StrCat(severity, " ", event);
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.key(), "=",
                    field.quoted() ? TextValue(field.value()) : field.value());
  }
  return line;
}

void LogInfo(absl::string_view event, std::initializer_list<LogField> fields) {
  Write("INFO", event, fields);
}

void LogWarning(absl::string_view event, std::initializer_list<LogField> fields) {
  Write("WARNING", event, fields);
}

void LogError(absl::string_view event, std::initializer_list<LogField> fields) {
  Write("ERROR", event, fields);
}

}  // namespace canopy
