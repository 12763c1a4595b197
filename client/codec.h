// Reads questions from JSON lines: one question a line, blank lines skipped, as
//   {"id": "q1", "kind": "choice", "prefix": [1, 2], "candidates": [{"id": "a", "tokens": [3]}]}
// `id` defaults to "", `kind` (plain, boolean, choice, score) to plain, `prefix` to an empty list;
// `tokens` is needed, and may be []. The keys "prompt", "text", "answer" and "comment" are
// comments; any other is refused, since a misspelt one would score something else without a word,
// and so is a key that stands twice. json_lines.h says what counts as JSON. What is understood but
// wrong is refused here; counts, limits and the vocabulary are the server's to check.
#ifndef CLIENT_CODEC_H_
#define CLIENT_CODEC_H_

#include <istream>
#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "canopy/v1/scorer.pb.h"
#include "canopy/v1/types.pb.h"

namespace canopy::client {

// Reads one line. INVALID_ARGUMENT with the place, as `candidates[1].tokens[4]: -7 is no token id`.
absl::StatusOr<v1::Question> ParseQuestion(absl::string_view line);

// Reads a question from JSON that was parsed already.
absl::StatusOr<v1::Question> ReadQuestion(const nlohmann::json& document);

// Appends all questions of `input` to `request`. INVALID_ARGUMENT as above behind `line 3: `.
absl::Status ReadQuestions(std::istream& input, v1::ScoreRequest* request);

}  // namespace canopy::client

#endif  // CLIENT_CODEC_H_
