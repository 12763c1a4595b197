// Reads canopy.v1.TokenIds in each of its forms: integers, or raw little-endian int32 or int64.
#ifndef CLIENT_TOKEN_IDS_H_
#define CLIENT_TOKEN_IDS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "canopy/v1/types.pb.h"

namespace canopy::client {

// Returns the number of tokens in `tokens`. Bytes beyond a multiple of 4, or of 8 for raw64, do not
// count, because the server refuses them.
inline uint64_t NumTokens(const v1::TokenIds& tokens) {
  return static_cast<uint64_t>(tokens.ids_size()) + tokens.raw().size() / sizeof(int32_t) +
         tokens.raw64().size() / sizeof(int64_t);
}

// Returns the token at `index`, which must be below NumTokens(tokens). A token in raw64 must be
// valid, because its upper half is ignored.
inline uint32_t TokenAt(const v1::TokenIds& tokens, uint64_t index) {
  if (index < static_cast<uint64_t>(tokens.ids_size())) {
    return tokens.ids(static_cast<int>(index));
  }
  index -= static_cast<uint64_t>(tokens.ids_size());
  const uint64_t num_raw = tokens.raw().size() / sizeof(int32_t);
  const bool is_raw = index < num_raw;
  const std::string& bytes = is_raw ? tokens.raw() : tokens.raw64();
  const size_t offset = is_raw ? index * sizeof(int32_t) : (index - num_raw) * sizeof(int64_t);
  uint32_t token = 0;
  for (size_t byte = 0; byte < sizeof(int32_t); ++byte) {
    token |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[offset + byte])) << (8 * byte);
  }
  return token;
}

// Returns the length of the candidate's path: prefix + tokens.
inline uint64_t NumPathTokens(const v1::Question& question, const v1::Candidate& candidate) {
  return NumTokens(question.prefix()) + NumTokens(candidate.tokens());
}

// Returns the path's token at `index`, which must be below NumPathTokens.
inline uint32_t PathTokenAt(const v1::Question& question, const v1::Candidate& candidate,
                            uint64_t index) {
  const uint64_t num_prefix_tokens = NumTokens(question.prefix());
  return index < num_prefix_tokens ? TokenAt(question.prefix(), index)
                                   : TokenAt(candidate.tokens(), index - num_prefix_tokens);
}

}  // namespace canopy::client

#endif  // CLIENT_TOKEN_IDS_H_
