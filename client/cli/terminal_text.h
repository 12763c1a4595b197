// Text that is safe and tidy on a terminal: ids and messages come from files and from servers, and
// must not move the cursor, hide text or reverse its direction.
#ifndef CLIENT_CLI_TERMINAL_TEXT_H_
#define CLIENT_CLI_TERMINAL_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace canopy::client {

// `text` with control characters, invisible and direction-changing ones and invalid UTF-8 escaped,
// as \x1b or \u{202e}. A backslash becomes two, so that the escapes are unambiguous.
std::string EscapeForTerminal(absl::string_view text);

// Columns that valid UTF-8 takes on a terminal: 2 for wide East Asian characters and emoji, 0 for
// combining marks.
size_t DisplayWidth(absl::string_view text);

// Escaped, and cut to `max_columns` with `...` at the end where it is longer. max_columns >= 3.
std::string EscapeAndElide(absl::string_view text, size_t max_columns);

// An id as tables and trees show it: escaped, cut to 40 columns, `#index` when it is empty.
std::string ShownId(absl::string_view id, int index);

// SGR colours, or nothing when off.
class Palette {
 public:
  explicit Palette(bool on) : on_(on) {}

  std::string Winner(absl::string_view text) const { return Wrap("1;32", text); }
  std::string Heading(absl::string_view text) const { return Wrap("1", text); }
  std::string Dim(absl::string_view text) const { return Wrap("2", text); }
  std::string Warning(absl::string_view text) const { return Wrap("31", text); }

 private:
  std::string Wrap(absl::string_view code, absl::string_view text) const;

  bool on_;
};

}  // namespace canopy::client

#endif  // CLIENT_CLI_TERMINAL_TEXT_H_
