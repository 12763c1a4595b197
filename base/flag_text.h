// The parts that the programs' flag parsers have in common.
#ifndef BASE_FLAG_TEXT_H_
#define BASE_FLAG_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace canopy {

// Returns which of `names` was probably meant by `name`, the first of several; '' if none is near.
// Dashes stand for underscores, and capitals for small letters.
std::string NearestName(absl::string_view name, absl::Span<const absl::string_view> names);

// Returns "; did you mean --NAME?" for the nearest name, or ''.
std::string DidYouMean(absl::string_view name, absl::Span<const absl::string_view> names);

}  // namespace canopy

#endif  // BASE_FLAG_TEXT_H_
