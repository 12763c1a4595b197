// Draws the tree of an Explain answer in ASCII.
#ifndef CLIENT_CLI_TREE_DRAWING_H_
#define CLIENT_CLI_TREE_DRAWING_H_

#include <string>
#include <vector>

#include "canopy/v1/scorer.pb.h"
#include "client/cli/terminal_text.h"

namespace canopy::client {

// Returns the lines of one question's tree. `details`, if not empty, contains lines for each node,
// which are drawn below it.
std::string DrawTree(const v1::Question& question, const v1::QuestionTree& tree,
                     const std::vector<std::vector<std::string>>& details, const Palette& palette);

// Returns one line per run of tokens, with its positions and the candidates that end there, then
// the footer with the planned work:
//
//   question q1: 2 candidates, 4 tokens instead of 6
//   `-- 0..1  [5 6]
//       |-- 2     [7]  <- yes
//       `-- 2     [8]  <- no
//
// Long runs and lists are cut and counted. Precondition: `response` has passed
// CheckExplainResponse, as every response of Client has. Linear in the tokens of the request's
// paths.
std::string DrawTrees(const v1::ScoreRequest& request, const v1::ExplainResponse& response,
                      const Palette& palette);

}  // namespace canopy::client

#endif  // CLIENT_CLI_TREE_DRAWING_H_
