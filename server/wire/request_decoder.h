// Second reading of a ScoreRequest: its questions, straight into flat arrays whose sizes the first
// reading counted.
//
// Both readings together allocate at most 8 times the bytes received + 1 MiB under the default
// limits: a token takes 4 bytes and at least 1 on the wire, a candidate 24 and at least 2.
#ifndef SERVER_WIRE_REQUEST_DECODER_H_
#define SERVER_WIRE_REQUEST_DECODER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tree/path_batch.h"
#include "server/wire/request_head.h"
#include "server/wire/violations.h"

namespace canopy::server {

// A run of the request's bytes: half of what a string_view takes.
struct TextSpan {
  uint32_t begin = 0;
  uint32_t size = 0;

  absl::string_view In(absl::string_view message) const { return message.substr(begin, size); }
};

// The questions of one request.
struct DecodedQuestions {
  PathBatch batch;                      // tokens as int32; valid when nothing was violated
  std::vector<TextSpan> question_ids;   // [questions]
  std::vector<TextSpan> candidate_ids;  // [paths]
  std::vector<int32_t> kinds;           // [questions], canopy.v1.QuestionKind as sent
  // The first field that LooksLikeInt64 is true of, as `questions[0].prefix.raw`; '' if there is
  // none.
  std::string suspicious_raw;
};

// Returns true if `raw`, the bytes of a TokenIds.raw, is most likely an int64 array whose bytes
// were sent as they are: at least 8 values, an even number of them, of which every second is zero
// while the others are not all zero. Linear, and ends at the first value that says otherwise.
bool LooksLikeInt64(absl::string_view raw);

// What tokens are checked against.
struct TokenLimits {
  int64_t vocab_size = 0;
  int64_t max_path_tokens = 0;
};

// Reads the questions of `message` (below 4 GiB), whose head was read. What is wrong with a
// question goes to `violations` in request order, and reading stops when they are full;
// INVALID_ARGUMENT only for malformed bytes.
absl::StatusOr<DecodedQuestions> DecodeQuestions(absl::string_view message,
                                                 const RequestCounts& counts,
                                                 const TokenLimits& limits, Violations* violations);

}  // namespace canopy::server

#endif  // SERVER_WIRE_REQUEST_DECODER_H_
