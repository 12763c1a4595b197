// Converts int64 tokens, as trainers hold them, to a form that every server reads.
//
// Servers without `raw64` in Model.token_forms ignore that field and its tokens. The client
// therefore never sends raw64: it narrows the tokens to `raw`, which all servers read and which is
// half as large. This needs no call to the server, and stays correct while servers of different
// versions share one name.
#ifndef CLIENT_TOKEN_FORMS_H_
#define CLIENT_TOKEN_FORMS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "canopy/v1/scorer.pb.h"
#include "canopy/v1/types.pb.h"

namespace canopy::client {

// Replaces the contents of `ids` by `tokens`. Returns INVALID_ARGUMENT with the first token that is
// negative or above 2^31 - 1, and leaves `ids` unchanged then. The server checks the vocabulary.
absl::Status SetTokens(absl::Span<const int64_t> tokens, v1::TokenIds* ids);

// Returns whether a TokenIds of the request has raw64.
bool HasRaw64(const v1::ScoreRequest& request);

// Replaces every raw64 of `request` by the same tokens as raw. Returns INVALID_ARGUMENT with the
// place, such as `questions[3].candidates[7].tokens: ...`, if a raw64 is combined with another
// form, is not a multiple of 8 bytes, or contains a token that SetTokens refuses; the request is
// then partly converted.
absl::Status NarrowRaw64(v1::ScoreRequest* request);

}  // namespace canopy::client

#endif  // CLIENT_TOKEN_FORMS_H_
