// Checks an answer against its request, so that the answer of a wrong server becomes an error and
// never a short list, a shifted row or a NaN that looks like a score. The client calls it on every
// answer.
//
// Checked are: request id, model and version; the number, order and ids of questions and
// candidates; path lengths; the length of every requested per-token list; that each requested
// output is present or the candidate has a reason; that numbers are finite; the shape and byte
// length of vectors; and, for Explain, that the tree spells exactly the request's paths.
//
// Errors are DATA_LOSS. They name the place, without contents.
#ifndef CLIENT_ANSWER_CHECK_H_
#define CLIENT_ANSWER_CHECK_H_

#include "absl/status/status.h"
#include "canopy/v1/admin.pb.h"
#include "canopy/v1/scorer.pb.h"

namespace canopy::client {

absl::Status CheckScoreResponse(const v1::ScoreRequest& request, const v1::ScoreResponse& response);

absl::Status CheckExplainResponse(const v1::ExplainRequest& request,
                                  const v1::ExplainResponse& response);

absl::Status CheckModel(const v1::GetModelRequest& request, const v1::Model& model);

absl::Status CheckLoadedModel(const v1::LoadWeightsRequest& request, const v1::Model& model);

}  // namespace canopy::client

#endif  // CLIENT_ANSWER_CHECK_H_
