// Checks the outputs of one candidate; see answer_check.h.
#ifndef CLIENT_CANDIDATE_CHECK_H_
#define CLIENT_CANDIDATE_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "canopy/v1/types.pb.h"

namespace canopy::client {

// Returns DATA_LOSS with the place in the candidate if `result` does not answer `candidate` of
// `question` under `outputs`.
absl::Status CheckCandidate(const v1::Question& question, const v1::Candidate& candidate,
                            const v1::Outputs& outputs, const v1::CandidateResult& result);

// Returns DATA_LOSS if one of `values` is not finite.
absl::Status CheckFinite(absl::string_view place, absl::Span<const float> values);

}  // namespace canopy::client

#endif  // CLIENT_CANDIDATE_CHECK_H_
