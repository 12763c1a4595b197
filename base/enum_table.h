// Tables with one row for each value of an enum. They are the one place of the values' names, from
// which flags, labels and lists are made.
#ifndef BASE_ENUM_TABLE_H_
#define BASE_ENUM_TABLE_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace canopy {

// The row of a value that has nothing but a name. Other rows have these members and more.
template <typename Enum>
struct NamedValue {
  Enum value;
  absl::string_view name;
};

// Returns whether there is a row for each value from 0 to `last`, in this order. To be asserted of
// each table when it is compiled.
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

// Returns "unknown" for a number that the enum does not have.
template <typename Row, size_t N, typename Enum>
constexpr absl::string_view NameOf(const Row (&rows)[N], Enum value) {
  return static_cast<size_t>(value) < N ? RowOf(rows, value).name : "unknown";
}

}  // namespace canopy

#endif  // BASE_ENUM_TABLE_H_
