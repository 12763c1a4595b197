// The one decoder of UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
#ifndef BASE_UTF8_H_
#define BASE_UTF8_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace canopy {

// The replacement for bytes that are not UTF-8.
inline constexpr uint32_t kReplacementCharacter = 0xfffd;

struct Utf8Character {
  uint32_t code_point = kReplacementCharacter;
  // If the bytes are not UTF-8, this counts the longest beginning of a character, at least one
  // byte, as Unicode recommends to replace them.
  size_t num_bytes = 1;
  bool is_valid = false;
};

// Returns the first character of `text`, which is not empty.
Utf8Character FirstUtf8Character(absl::string_view text);

bool IsValidUtf8(absl::string_view text);

// Returns the longest beginning of `text` that has at most `max_bytes` bytes and does not end
// within a character, if `text` is UTF-8.
absl::string_view Utf8Prefix(absl::string_view text, size_t max_bytes);

}  // namespace canopy

#endif  // BASE_UTF8_H_
