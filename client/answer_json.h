// Formats answers as JSON: one document on one line, ASCII only, with the names of the contract's
// fields as keys, in the order below. Absent values and lists that were not requested are left out.
// Enums have their short names (client/enum_names.h).
//
// Score:   {request_id, model, model_version, model_fingerprint, results[], vectors?, stats}
//   result:    {id, candidates[], boolean? | choice? | score?, distribution?}
//   candidate: {id, tokens, score?, label_scores?, probability?, unscored_reason?,
//               unscored_outputs?, first_scored_token?, then the per-token outputs in the order of
//               CandidateResult's fields: token_logprobs?, sum_logprob?, entropy?, ...,
//               top_logprobs?: [{ids, logprobs}], ...}
//   vectors:   {dtype, shape, rows}: a list of numbers per candidate, or null if it has none;
//              for bfloat16 and float16 {dtype, shape, base64}: the tensor's little-endian bytes
// Explain: {stats, questions: [{id, nodes: [{parent, start_depth, tokens, candidates}]}]}
//   The SVG is not included: `canopy explain --svg` writes a file.
// Models:  {models: [...]}
#ifndef CLIENT_ANSWER_JSON_H_
#define CLIENT_ANSWER_JSON_H_

#include <string>

#include "canopy/v1/scorer.pb.h"

namespace canopy::client {

// Precondition: the response has passed CheckScoreResponse, as every response of Client has.
std::string ScoreResponseToJson(const v1::ScoreResponse& response);

std::string ExplainResponseToJson(const v1::ExplainResponse& response);

std::string ModelsToJson(const v1::ListModelsResponse& response);

}  // namespace canopy::client

#endif  // CLIENT_ANSWER_JSON_H_
