// JSON from files that nobody vouches for. The plain parser keeps the last of two equal keys and
// builds documents of any size; this one refuses duplicates, deep nesting and floods of values
// before it stores them.
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
  int max_depth = 16;  // Open objects and arrays at once, the outermost included.
  int64_t max_values = 1'000'000;
};

// INVALID_ARGUMENT, naming the byte or the limit, unless `text` is one JSON document (RFC 8259,
// UTF-8, finite numbers, no comments) without duplicate keys and within `limits`. Never throws on
// content.
absl::StatusOr<nlohmann::json> ParseStrictJson(absl::string_view text, const JsonLimits& limits);

// `value` as JSON for an error message: ASCII, at most about 100 characters.
std::string DescribeJson(const nlohmann::json& value);

}  // namespace canopy

#endif  // BASE_STRICT_JSON_H_
