// Shows a Score answer as text: a table a question, its tree where tokens are scored, and the
// footer.
#ifndef CLIENT_CLI_SCORE_TABLE_H_
#define CLIENT_CLI_SCORE_TABLE_H_

#include <string>

#include "canopy/v1/scorer.pb.h"
#include "client/cli/terminal_text.h"

namespace canopy::client {

// Candidates are ranked by score, else probability, else log-probability, ties and unscored ones in
// request order; the best is marked with `*`. Levels of a score question stay in their order. A
// column stands for each output that the answer has;
// per-token lists are summed up in it, and stand under their tokens in the question's tree below.
// `response` must have passed CheckScoreResponse, as what Client returns has.
std::string ScoreTables(const v1::ScoreRequest& request, const v1::ScoreResponse& response,
                        const Palette& palette);

}  // namespace canopy::client

#endif  // CLIENT_CLI_SCORE_TABLE_H_
