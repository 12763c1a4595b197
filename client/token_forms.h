// Token arrays as trainers hold them, int64, in a form that every server reads.
//
// Servers whose Model.token_forms lacks `raw64` ignore that field and the tokens in it. The client
// therefore never sends raw64: it narrows the tokens to `raw`, which all servers read, and which is
// half as large. This needs no question to the server, and stays right while servers of different
// versions stand behind one name.
#ifndef CLIENT_TOKEN_FORMS_H_
#define CLIENT_TOKEN_FORMS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "canopy/v1/scorer.pb.h"
#include "canopy/v1/types.pb.h"

namespace canopy::client {

// Replaces what `ids` holds by `tokens`. INVALID_ARGUMENT naming the first one that is negative or
// above 2^31 - 1; `ids` is unchanged then. The server checks the vocabulary.
absl::Status SetTokens(absl::Span<const int64_t> tokens, v1::TokenIds* ids);

// Returns true if a TokenIds of the request has raw64.
bool HasRaw64(const v1::ScoreRequest& request);

// Replaces every raw64 of `request` by the same tokens as raw. INVALID_ARGUMENT with the place, as
// `questions[3].candidates[7].tokens: ...`, if a raw64 stands beside another form, is not a
// multiple of 8 bytes, or holds what SetTokens refuses; the request is then partly converted.
absl::Status NarrowRaw64(v1::ScoreRequest* request);

}  // namespace canopy::client

#endif  // CLIENT_TOKEN_FORMS_H_
