#include "base/logging.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/utf8.h"

namespace canopy {
namespace {

std::atomic<LogFormat> g_format{LogOptions().format};
std::atomic<int32_t> g_lines_per_second{LogOptions().lines_per_second};
std::atomic<int64_t> g_left_out{0};

void AppendEscaped(uint32_t code_point, std::string* text) {
  if (code_point > 0xffff) {
    const uint32_t rest = code_point - 0x10000;
    absl::StrAppendFormat(text, "\\u%04x\\u%04x", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
  } else {
    absl::StrAppendFormat(text, "\\u%04x", code_point);
  }
}

// Returns a JSON string in printable ASCII. For any bytes, the line is valid JSON and cannot change
// how a terminal displays it.
std::string JsonQuoted(absl::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const Utf8Character character = FirstUtf8Character(text);
    if (character.code_point < 0x20 || character.code_point >= 0x7f) {
      AppendEscaped(character.code_point, &quoted);
    } else {
      if (text[0] == '"' || text[0] == '\\') {
        quoted += '\\';
      }
      quoted += text[0];
    }
    text.remove_prefix(character.num_bytes);
  }
  quoted += '"';
  return quoted;
}

// Quotes the value only if spaces, quotes or other characters would make the line ambiguous.
std::string TextValue(absl::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte >= 0x7f || c == '"' || c == '=') {
      return JsonQuoted(text);
    }
  }
  return text.empty() ? "\"\"" : std::string(text);
}

// Counts the lines of each event in the current second. Thread-safe.
class LineBudgets {
 public:
  // Counts a line of this event. Returns nullopt if it must be left out; otherwise returns the
  // number of lines that were left out since the last written line.
  std::optional<int64_t> Take(absl::string_view event) ABSL_LOCKS_EXCLUDED(mutex_) {
    const int32_t limit = g_lines_per_second.load(std::memory_order_relaxed);
    const auto now = std::chrono::steady_clock::now();
    MutexLock lock(&mutex_);
    Budget& budget = budgets_[event];
    if (now - budget.second >= std::chrono::seconds(1)) {
      budget.second = now;
      budget.lines = 0;
    }
    if (limit > 0 && budget.lines >= limit) {
      ++budget.left_out;
      g_left_out.fetch_add(1, std::memory_order_relaxed);
      return std::nullopt;
    }
    ++budget.lines;
    return std::exchange(budget.left_out, 0);
  }

 private:
  struct Budget {
    std::chrono::steady_clock::time_point second;
    int64_t lines = 0;
    int64_t left_out = 0;
  };

  Mutex mutex_;
  absl::flat_hash_map<std::string, Budget> budgets_ ABSL_GUARDED_BY(mutex_);
};

bool Write(absl::string_view severity, absl::string_view event, absl::Span<const LogField> fields) {
  // The object is never destroyed, because other threads may log while the process exits.
  static auto* const budgets = new LineBudgets();
  const std::optional<int64_t> left_out = budgets->Take(event);
  if (!left_out.has_value()) {
    return false;
  }
  std::vector<LogField> with_left_out;
  if (*left_out > 0) {
    with_left_out.assign(fields.begin(), fields.end());
    with_left_out.emplace_back("left_out", *left_out);
    fields = with_left_out;
  }
  const LogFormat format = g_format.load(std::memory_order_relaxed);
  const std::string time =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
  const std::string body = FormatLogLine(format, severity, event, fields);
  const std::string line = format == LogFormat::kJson
                               ? absl::StrCat("{\"time\":\"", time, "\",", body.substr(1), "\n")
                               : absl::StrCat(time, " ", body, "\n");
  // A single call writes the line, so that lines of several threads do not mix.
  std::fwrite(line.data(), 1, line.size(), stderr);
  return true;
}

}  // namespace

LogField::LogField(absl::string_view key, double value)
    : key_(key), value_(absl::StrFormat("%.6g", value)) {
  // JSON has no representation of nan and inf as numbers.
  quoted_ = value_.find_first_of("ni") != std::string::npos;
}

std::string BoundedForLog(absl::string_view text, size_t max_bytes) {
  return text.size() <= max_bytes ? std::string(text)
                                  : absl::StrCat(text.substr(0, max_bytes), "...");
}

void SetLogOptions(const LogOptions& options) {
  g_format.store(options.format, std::memory_order_relaxed);
  g_lines_per_second.store(options.lines_per_second, std::memory_order_relaxed);
}

int64_t LogLinesLeftOut() { return g_left_out.load(std::memory_order_relaxed); }

std::string FormatLogLine(LogFormat format, absl::string_view severity, absl::string_view event,
                          absl::Span<const LogField> fields) {
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

bool LogInfo(absl::string_view event, absl::Span<const LogField> fields) {
  return Write("INFO", event, fields);
}

bool LogWarning(absl::string_view event, absl::Span<const LogField> fields) {
  return Write("WARNING", event, fields);
}

bool LogError(absl::string_view event, absl::Span<const LogField> fields) {
  return Write("ERROR", event, fields);
}

bool LogInfo(absl::string_view event, std::initializer_list<LogField> fields) {
  return Write("INFO", event, fields);
}

bool LogWarning(absl::string_view event, std::initializer_list<LogField> fields) {
  return Write("WARNING", event, fields);
}

bool LogError(absl::string_view event, std::initializer_list<LogField> fields) {
  return Write("ERROR", event, fields);
}

}  // namespace canopy
