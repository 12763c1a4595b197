// Text that is safe on a terminal. Ids and messages come from files and servers, and must not move
// the cursor, hide text or reverse its direction.
#ifndef CLIENT_CLI_TERMINAL_TEXT_H_
#define CLIENT_CLI_TERMINAL_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace canopy::client {

// Returns `text` with control characters, invisible and direction-changing characters and invalid
// UTF-8 escaped, such as \x1b or \u{202e}. A backslash is doubled, so that the escapes are
// unambiguous.
std::string EscapeForTerminal(absl::string_view text);

// Returns the columns that valid UTF-8 takes on a terminal: 2 for wide East Asian characters and
// emoji, 0 for combining marks.
size_t DisplayWidth(absl::string_view text);

// Returns the escaped text, cut to `max_columns` with `...` at the end if it is longer.
// Precondition: max_columns >= 3.
std::string EscapeAndElide(absl::string_view text, size_t max_columns);

// Returns an id for tables and trees: escaped, cut to 40 columns, `#index` if it is empty.
std::string ShownId(absl::string_view id, int index);

// SGR colours; empty if disabled.
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
