// Formats a Score answer as text: a table per question, its tree if tokens are scored, and the
// footer.
#ifndef CLIENT_CLI_SCORE_TABLE_H_
#define CLIENT_CLI_SCORE_TABLE_H_

#include <string>

#include "canopy/v1/scorer.pb.h"
#include "client/cli/terminal_text.h"

namespace canopy::client {

// Candidates are ranked by score, else probability, else log-probability. Ties and unscored
// candidates are in request order. The best candidate is marked with `*`. Levels of a score
// question keep their order. Each output of the answer has a column. Per-token lists are summarised
// in their column, and shown under their tokens in the question's tree. Precondition: `response`
// has passed CheckScoreResponse, as every response of Client has.
std::string ScoreTables(const v1::ScoreRequest& request, const v1::ScoreResponse& response,
                        const Palette& palette);

}  // namespace canopy::client

#endif  // CLIENT_CLI_SCORE_TABLE_H_
