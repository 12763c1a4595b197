// Decodes UTF-8. Overlong forms, surrogates and code points above U+10FFFF are invalid.
#ifndef BASE_UTF8_H_
#define BASE_UTF8_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace canopy {

// The replacement character for invalid bytes.
inline constexpr uint32_t kReplacementCharacter = 0xfffd;

struct Utf8Character {
  uint32_t code_point = kReplacementCharacter;
  // The number of bytes of the character. For invalid bytes, this is the length of the longest
  // valid beginning of a character, at least one byte, which Unicode recommends to replace as a
  // whole.
  size_t num_bytes = 1;
  bool is_valid = false;
};

// Returns the first character of `text`. Precondition: `text` is not empty.
Utf8Character FirstUtf8Character(absl::string_view text);

bool IsValidUtf8(absl::string_view text);

// Returns the longest prefix of `text` with at most `max_bytes` bytes that does not end within a
// character. Precondition: `text` is valid UTF-8.
absl::string_view Utf8Prefix(absl::string_view text, size_t max_bytes);

}  // namespace canopy

#endif  // BASE_UTF8_H_
