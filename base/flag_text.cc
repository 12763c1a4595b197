#include "base/flag_text.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace canopy {
namespace {

// Returns the number of letters to insert, remove or change to turn `b` into `a`.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string NearestName(absl::string_view name, absl::Span<const absl::string_view> names) {
  const std::string meant = absl::AsciiStrToLower(absl::StrReplaceAll(name, {{"-", "_"}}));
  std::string nearest;
  // About a third of the letters may differ.
  size_t least = std::min<size_t>((meant.size() + 1) / 3, 3) + 1;
  for (const absl::string_view each : names) {
    if (const size_t distance = EditDistance(meant, each); distance < least) {
      least = distance;
      nearest = std::string(each);
    }
  }
  return nearest;
}

std::string DidYouMean(absl::string_view name, absl::Span<const absl::string_view> names) {
  const std::string nearest = NearestName(name, names);
  return nearest.empty() ? "" : absl::StrCat("; did you mean --", nearest, "?");
}

}  // namespace canopy
