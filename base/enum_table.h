// Tables with one row for each value of an enum. A table is the only place that has the names of
// the values; flags, labels and lists are derived from it.
#ifndef BASE_ENUM_TABLE_H_
#define BASE_ENUM_TABLE_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace canopy {

// A row of a table that has only names. Rows of other tables have these members and more.
template <typename Enum>
struct NamedValue {
  Enum value;
  absl::string_view name;
};

// Returns true if there is a row for each value from 0 to `last`, in this order. Use it in a
// static_assert for each table.
template <typename Row, size_t N, typename Enum>
constexpr bool IsEnumTable(const Row (&rows)[N], Enum last) {
  for (size_t i = 0; i < N; ++i) {
    if (rows[i].value != static_cast<Enum>(i)) {
      return false;
    }
  }
  return rows[N - 1].value == last;
}

// Precondition: `value` is a value of the enum.
template <typename Row, size_t N, typename Enum>
constexpr const Row& RowOf(const Row (&rows)[N], Enum value) {
  return rows[static_cast<size_t>(value)];
}

// Returns "unknown" for a number that is not a value of the enum.
template <typename Row, size_t N, typename Enum>
constexpr absl::string_view NameOf(const Row (&rows)[N], Enum value) {
  return static_cast<size_t>(value) < N ? RowOf(rows, value).name : "unknown";
}

}  // namespace canopy

#endif  // BASE_ENUM_TABLE_H_
