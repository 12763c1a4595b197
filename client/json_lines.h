// Reads JSON lines strictly: what a lenient parser would drop or repair in silence is refused, with
// the line and what to do about it.
#ifndef CLIENT_JSON_LINES_H_
#define CLIENT_JSON_LINES_H_

#include <istream>
#include <nlohmann/json_fwd.hpp>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace canopy::client {

// The most objects and lists that may be open at once in one line.
inline constexpr int kMaxJsonDepth = 64;

// Parses one JSON document (RFC 8259). INVALID_ARGUMENT, with the place, for text that is not JSON,
// also for what stands behind the document, NaN and infinity; for bytes that are not UTF-8 or are a
// byte order mark; for a key that an object has twice; for numbers beyond a double's range; and for
// nesting deeper than kMaxJsonDepth.
absl::StatusOr<nlohmann::json> ParseStrictJson(absl::string_view text);

// Calls `read` with the document of each line until it returns an error. Blank lines are skipped, a
// line may end in CR LF, and the first one may start with a byte order mark, as Windows' editors
// write it. Errors are INVALID_ARGUMENT and start with `line 3: `; one for a file that is a JSON
// list, or one document over several lines, says how to turn it into lines. DATA_LOSS if reading
// fails.
absl::Status ReadJsonLines(std::istream& input,
                           absl::FunctionRef<absl::Status(const nlohmann::json& document)> read);

}  // namespace canopy::client

#endif  // CLIENT_JSON_LINES_H_
