// Parses JSON from untrusted files. nlohmann's own parser keeps the last of several equal keys and
// builds documents of any size. This parser refuses duplicate keys, deep nesting and too many
// values before it stores them.
#ifndef BASE_STRICT_JSON_H_
#define BASE_STRICT_JSON_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace canopy {

struct JsonLimits {
  int64_t max_bytes = int64_t{4} << 20;
  int max_depth = 16;  // nested objects and arrays, including the outermost
  int64_t max_values = 1'000'000;
};

// Returns INVALID_ARGUMENT, naming the byte or the limit, unless `text` is one JSON document (RFC
// 8259, UTF-8, finite numbers, no comments) without duplicate keys and within `limits`. Never
// throws because of the content.
absl::StatusOr<nlohmann::json> ParseStrictJson(absl::string_view text, const JsonLimits& limits);

// Returns `value` as JSON for an error message: ASCII, at most about 100 characters.
std::string DescribeJson(const nlohmann::json& value);

}  // namespace canopy

#endif  // BASE_STRICT_JSON_H_
