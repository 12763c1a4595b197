#include "base/utf8.h"

namespace canopy {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

}  // namespace

Utf8Character FirstUtf8Character(absl::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const uint32_t first = byte(0);
  if (first < 0x80) {
    return {first, 1, true};
  }
  if (first < 0xc2 || first > 0xf4) {
    return {kReplacementCharacter, 1, false};
  }
  const size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  // The range of the second byte is narrower, to exclude overlong forms, surrogates and code points
  // above U+10FFFF.
  uint32_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  uint32_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  uint32_t code_point = first & (0xffU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if (i >= text.size() || byte(i) < low || byte(i) > high) {
      return {kReplacementCharacter, i, false};
    }
    code_point = code_point << 6 | (byte(i) & 0x3fU);
    low = 0x80;
    high = 0xbf;
  }
  return {code_point, length, true};
}

bool IsValidUtf8(absl::string_view text) {
  while (!text.empty()) {
    if (static_cast<unsigned char>(text[0]) < 0x80) {
      text.remove_prefix(1);
      continue;
    }
    const Utf8Character character = FirstUtf8Character(text);
    if (!character.is_valid) {
      return false;
    }
    text.remove_prefix(character.num_bytes);
  }
  return true;
}

absl::string_view Utf8Prefix(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) {
    return text;
  }
  while (max_bytes > 0 && IsContinuation(text[max_bytes])) {
    --max_bytes;
  }
  return text.substr(0, max_bytes);
}

}  // namespace canopy
