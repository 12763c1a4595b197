// Writes answers as JSON: one document on one line, ASCII only, keys in the order below and named
// as the contract's fields. Absent values and lists that were not asked for are left out; enums are
// their short names (client/enum_names.h).
//
// Score:   {request_id, model, model_version, model_fingerprint, results[], vectors?, stats}
//   result:    {id, candidates[], boolean? | choice? | score?, distribution?}
//   candidate: {id, tokens, score?, label_scores?, probability?, unscored_reason?,
//               unscored_outputs?, first_scored_token?, then the per-token outputs in the order of
//               CandidateResult's fields: token_logprobs?, sum_logprob?, entropy?, ...,
//               top_logprobs?: [{ids, logprobs}], ...}
//   vectors:   {dtype, shape, rows}: a list of numbers a candidate, or null where it has none;
//              for bfloat16 and float16 {dtype, shape, base64}: the tensor's little-endian bytes
// Explain: {stats, questions: [{id, nodes: [{parent, start_depth, tokens, candidates}]}]}
//   The SVG is not in it: `canopy explain --svg` writes a file.
// Models:  {models: [...]}
#ifndef CLIENT_ANSWER_JSON_H_
#define CLIENT_ANSWER_JSON_H_

#include <string>

#include "canopy/v1/scorer.pb.h"

namespace canopy::client {

// The response must have passed CheckScoreResponse, as what Client returns has.
std::string ScoreResponseToJson(const v1::ScoreResponse& response);

std::string ExplainResponseToJson(const v1::ExplainResponse& response);

std::string ModelsToJson(const v1::ListModelsResponse& response);

}  // namespace canopy::client

#endif  // CLIENT_ANSWER_JSON_H_
