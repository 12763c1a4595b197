// The outputs that a candidate lacks because they were not finite.
#ifndef CLIENT_UNSCORED_H_
#define CLIENT_UNSCORED_H_

#include <algorithm>

#include "absl/strings/string_view.h"
#include "canopy/v1/types.pb.h"

namespace canopy::client {

// Returns whether `result` lacks all outputs. Servers before CandidateResult.unscored_outputs
// return a reason and no names.
inline bool LacksEverything(const v1::CandidateResult& result) {
  return !result.unscored_reason().empty() && result.unscored_outputs().empty();
}

// Returns whether `result` lacks the output of this field of Outputs.
inline bool Lacks(const v1::CandidateResult& result, absl::string_view field) {
  const auto& names = result.unscored_outputs();
  return LacksEverything(result) || std::find(names.begin(), names.end(), field) != names.end();
}

}  // namespace canopy::client

#endif  // CLIENT_UNSCORED_H_
