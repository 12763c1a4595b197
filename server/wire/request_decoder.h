// The second pass over a ScoreRequest: decodes its questions into flat arrays whose sizes the first
// pass has counted.
//
// Under the default limits, the two passes together allocate at most 8 times the bytes received + 1
// MiB: a token takes 4 bytes and at least 1 on the wire, a candidate 24 bytes and at least 2.
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

// A range of the request's bytes; half the size of a string_view.
struct TextSpan {
  uint32_t begin = 0;
  uint32_t size = 0;

  absl::string_view In(absl::string_view message) const { return message.substr(begin, size); }
};

// The questions of one request.
struct DecodedQuestions {
  PathBatch batch;                      // tokens as int32; valid if there are no violations
  std::vector<TextSpan> question_ids;   // [questions]
  std::vector<TextSpan> candidate_ids;  // [paths]
  std::vector<int32_t> kinds;           // [questions], canopy.v1.QuestionKind as sent
  // The first field for which LooksLikeInt64 is true, such as `questions[0].prefix.raw`; '' if
  // there is none.
  std::string suspicious_raw;
};

// Returns whether `raw`, the bytes of a TokenIds.raw, is most likely an int64 array that was sent
// unchanged: it has an even number of values, at least 8, every second value is zero, and the
// others are not all zero. Linear; stops at the first value that rules this out.
bool LooksLikeInt64(absl::string_view raw);

// The limits for tokens.
struct TokenLimits {
  int64_t vocab_size = 0;
  int64_t max_path_tokens = 0;
};

// Decodes the questions of `message` (below 4 GiB), whose head was read before. Errors in questions
// are added to `violations` in request order, and decoding stops when these are full. Returns
// INVALID_ARGUMENT only for malformed bytes.
absl::StatusOr<DecodedQuestions> DecodeQuestions(absl::string_view message,
                                                 const RequestCounts& counts,
                                                 const TokenLimits& limits, Violations* violations);

}  // namespace canopy::server

#endif  // SERVER_WIRE_REQUEST_DECODER_H_
