// Reads JSON lines strictly. Text that a lenient parser would silently drop or repair is refused,
// with the line and advice.
#ifndef CLIENT_JSON_LINES_H_
#define CLIENT_JSON_LINES_H_

#include <istream>
#include <nlohmann/json_fwd.hpp>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace canopy::client {

// The most objects and lists that may be nested in one line.
inline constexpr int kMaxJsonDepth = 64;

// Parses one JSON document (RFC 8259). Returns INVALID_ARGUMENT, with the place, for text that is
// not JSON, including text after the document, NaN and infinity; for bytes that are not UTF-8, and
// for a byte order mark; for an object with a duplicate key; for numbers beyond the range of a
// double; and for nesting deeper than kMaxJsonDepth.
absl::StatusOr<nlohmann::json> ParseStrictJson(absl::string_view text);

// Calls `read` with the document of each line until it returns an error. Blank lines are skipped, a
// line may end in CR LF, and the first line may start with a byte order mark, as editors on Windows
// write it. Errors are INVALID_ARGUMENT and start with `line 3: `. The error for a file that is a
// JSON list, or one document over several lines, explains how to convert it. Returns DATA_LOSS if
// reading fails.
absl::Status ReadJsonLines(std::istream& input,
                           absl::FunctionRef<absl::Status(const nlohmann::json& document)> read);

}  // namespace canopy::client

#endif  // CLIENT_JSON_LINES_H_
