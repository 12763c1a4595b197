// Prints the name of each error reason with its code, one per line.
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error_reasons.h"

int main() {
  for (const canopy::ErrorReasonRow& row : canopy::kErrorReasons) {
    const std::string line = absl::StrCat(row.name, " ", absl::StatusCodeToString(row.code));
    std::puts(line.c_str());
  }
  return 0;
}
