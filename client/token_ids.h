// Reads canopy.v1.TokenIds in either of its forms: integers, or raw little-endian int32.
#ifndef CLIENT_TOKEN_IDS_H_
#define CLIENT_TOKEN_IDS_H_

#include <cstddef>
#include <cstdint>

#include "canopy/v1/types.pb.h"

namespace canopy::client {

// Tokens that `tokens` holds. Bytes beyond a multiple of 4 do not count: the server refuses them.
inline uint64_t NumTokens(const v1::TokenIds& tokens) {
  return static_cast<uint64_t>(tokens.ids_size()) + tokens.raw().size() / sizeof(int32_t);
}

// The token at `index`, which must be below NumTokens(tokens).
inline uint32_t TokenAt(const v1::TokenIds& tokens, uint64_t index) {
  if (index < static_cast<uint64_t>(tokens.ids_size())) {
    return tokens.ids(static_cast<int>(index));
  }
  const size_t offset = (index - tokens.ids_size()) * sizeof(int32_t);
  uint32_t token = 0;
  for (size_t byte = 0; byte < sizeof(int32_t); ++byte) {
    token |= static_cast<uint32_t>(static_cast<unsigned char>(tokens.raw()[offset + byte]))
             << (8 * byte);
  }
  return token;
}

// Length of the candidate's path: prefix + tokens.
inline uint64_t NumPathTokens(const v1::Question& question, const v1::Candidate& candidate) {
  return NumTokens(question.prefix()) + NumTokens(candidate.tokens());
}

// The path's token at `index`, which must be below NumPathTokens.
inline uint32_t PathTokenAt(const v1::Question& question, const v1::Candidate& candidate,
                            uint64_t index) {
  const uint64_t num_prefix_tokens = NumTokens(question.prefix());
  return index < num_prefix_tokens ? TokenAt(question.prefix(), index)
                                   : TokenAt(candidate.tokens(), index - num_prefix_tokens);
}

}  // namespace canopy::client

#endif  // CLIENT_TOKEN_IDS_H_
