#include "client/cli/terminal_text.h"

#include <array>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/utf8.h"

namespace canopy::client {
namespace {

struct Range {
  uint32_t first;
  uint32_t last;
};

// Control characters, and characters that are invisible or change the direction of the text after
// them.
constexpr std::array<Range, 13> kUnsafe = {{{0x00, 0x1F},
                                            {0x7F, 0x9F},
                                            {0xAD, 0xAD},
                                            {0x61C, 0x61C},
                                            {0x180E, 0x180E},
                                            {0x200B, 0x200F},
                                            {0x2028, 0x202E},
                                            {0x2060, 0x206F},
                                            {0xFE00, 0xFE0F},
                                            {0xFEFF, 0xFEFF},
                                            {0xFFF9, 0xFFFB},
                                            {0xE0000, 0xE0FFF},
                                            {0xF0000, 0x10FFFF}}};
constexpr std::array<Range, 9> kWide = {{{0x1100, 0x115F},
                                         {0x2E80, 0x303E},
                                         {0x3041, 0xA4CF},
                                         {0xAC00, 0xD7A3},
                                         {0xF900, 0xFAFF},
                                         {0xFE30, 0xFE6F},
                                         {0xFF00, 0xFF60},
                                         {0x1F300, 0x1FAFF},
                                         {0x20000, 0x3FFFD}}};
constexpr std::array<Range, 4> kCombining = {
    {{0x300, 0x36F}, {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x20D0, 0x20FF}}};

template <size_t kSize>
bool IsIn(const std::array<Range, kSize>& ranges, uint32_t code_point) {
  for (const Range& range : ranges) {
    if (code_point >= range.first && code_point <= range.last) {
      return true;
    }
  }
  return false;
}

size_t WidthOf(uint32_t code_point) {
  if (IsIn(kCombining, code_point)) {
    return 0;
  }
  return IsIn(kWide, code_point) ? 2 : 1;
}

// Removes the first character of `text` and returns it in a safe form.
std::string TakeEscaped(absl::string_view* text) {
  const Utf8Character character = FirstUtf8Character(*text);
  if (!character.is_valid) {
    const auto byte = static_cast<unsigned char>((*text)[0]);
    text->remove_prefix(1);
    return absl::StrFormat("\\x%02x", byte);
  }
  std::string bytes(text->substr(0, character.num_bytes));
  text->remove_prefix(character.num_bytes);
  if (character.code_point == '\\') {
    return "\\\\";
  }
  if (!IsIn(kUnsafe, character.code_point)) {
    return bytes;
  }
  return character.code_point < 0x80 ? absl::StrFormat("\\x%02x", character.code_point)
                                     : absl::StrFormat("\\u{%x}", character.code_point);
}

}  // namespace

std::string EscapeForTerminal(absl::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    escaped += TakeEscaped(&text);
  }
  return escaped;
}

size_t DisplayWidth(absl::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    const Utf8Character character = FirstUtf8Character(text);
    columns += WidthOf(character.code_point);
    text.remove_prefix(character.is_valid ? character.num_bytes : 1);
  }
  return columns;
}

std::string EscapeAndElide(absl::string_view text, size_t max_columns) {
  constexpr absl::string_view kEllipsis = "...";
  std::string shown;
  size_t columns = 0;
  // The length of the text that leaves room for the ellipsis.
  size_t cut_bytes = 0;
  while (!text.empty()) {
    const std::string piece = TakeEscaped(&text);
    columns += DisplayWidth(piece);
    if (columns > max_columns) {
      return absl::StrCat(shown.substr(0, cut_bytes), kEllipsis);
    }
    shown += piece;
    if (columns + kEllipsis.size() <= max_columns) {
      cut_bytes = shown.size();
    }
  }
  return shown;
}

std::string ShownId(absl::string_view id, int index) {
  constexpr size_t kMaxColumns = 40;
  return id.empty() ? absl::StrCat("#", index) : EscapeAndElide(id, kMaxColumns);
}

std::string Palette::Wrap(absl::string_view code, absl::string_view text) const {
  return on_ ? absl::StrCat("\x1b[", code, "m", text, "\x1b[0m") : std::string(text);
}

}  // namespace canopy::client
