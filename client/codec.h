// Reads questions from JSON lines. Each line is one question, and blank lines are skipped:
//
//   {"id": "q1", "kind": "choice", "prefix": [1, 2], "candidates": [{"id": "a", "tokens": [3]}]}
//
// `id` defaults to "", `kind` (plain, boolean, choice, score) to plain, and `prefix` to an empty
// list. `tokens` is required and may be []. The keys "prompt", "text", "answer" and "comment" are
// comments. Any other key is refused, because a misspelt key would silently score something else;
// so is a duplicate key. json_lines.h describes the accepted JSON. The server checks counts, limits
// and the vocabulary.
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

// Parses one line. Returns INVALID_ARGUMENT with the place, such as `candidates[1].tokens[4]: -7 is
// no token id`.
absl::StatusOr<v1::Question> ParseQuestion(absl::string_view line);

// Reads a question from parsed JSON.
absl::StatusOr<v1::Question> ReadQuestion(const nlohmann::json& document);

// Appends all questions of `input` to `request`. Errors are those of ParseQuestion after `line 3:
// `.
absl::Status ReadQuestions(std::istream& input, v1::ScoreRequest* request);

}  // namespace canopy::client

#endif  // CLIENT_CODEC_H_
