#include "client/cli/text_table.h"

#include <algorithm>
#include <utility>

#include "client/cli/terminal_text.h"

namespace canopy::client {

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {
  for (const Column& column : columns_) {
    widths_.push_back(DisplayWidth(column.title));
  }
}

void TextTable::AddRow(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    widths_[i] = std::max(widths_[i], DisplayWidth(cells[i]));
  }
  rows_.push_back(std::move(cells));
}

std::vector<std::string> TextTable::Lines() const {
  std::vector<std::string> titles;
  for (const Column& column : columns_) {
    titles.push_back(column.title);
  }
  std::vector<std::string> lines = {Line(titles)};
  for (const std::vector<std::string>& row : rows_) {
    lines.push_back(Line(row));
  }
  return lines;
}

std::string TextTable::Line(const std::vector<std::string>& cells) const {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string blanks(widths_[i] - DisplayWidth(cells[i]), ' ');
    line += i == 0 ? "" : "  ";
    line += columns_[i].align == Align::kLeft ? cells[i] + blanks : blanks + cells[i];
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace canopy::client
