// Helpers that the flag parsers of all programs share.
#ifndef BASE_FLAG_TEXT_H_
#define BASE_FLAG_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace canopy {

// Returns the name in `names` that is most similar to `name`, the first of several equally similar
// ones, or "" if none is similar. Treats dashes as underscores and ignores case.
std::string NearestName(absl::string_view name, absl::Span<const absl::string_view> names);

// Returns "; did you mean --NAME?" for the most similar name, or "".
std::string DidYouMean(absl::string_view name, absl::Span<const absl::string_view> names);

}  // namespace canopy

#endif  // BASE_FLAG_TEXT_H_
