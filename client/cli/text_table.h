// Formats rows of cells in aligned columns.
#ifndef CLIENT_CLI_TEXT_TABLE_H_
#define CLIENT_CLI_TEXT_TABLE_H_

#include <ostream>
#include <string>
#include <vector>

namespace canopy::client {

class TextTable {
 public:
  enum class Align { kLeft, kRight };

  // The first row is a header; every row has a cell for each column.
  struct Column {
    std::string title;
    Align align = Align::kRight;
  };

  explicit TextTable(std::vector<Column> columns);

  // `cells` are safe text (terminal_text.h), at most one per column; missing cells are empty.
  void AddRow(std::vector<std::string> cells);

  // Returns all lines, the header first, without line ends or trailing blanks.
  std::vector<std::string> Lines() const;

 private:
  std::string Line(const std::vector<std::string>& cells) const;

  std::vector<Column> columns_;
  std::vector<size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace canopy::client

#endif  // CLIENT_CLI_TEXT_TABLE_H_
