// Formats the per-token outputs of one run of a tree, each number under its token.
#ifndef CLIENT_CLI_TOKEN_LINES_H_
#define CLIENT_CLI_TOKEN_LINES_H_

#include <string>
#include <vector>

#include "canopy/v1/types.pb.h"

namespace canopy::client {

// Returns whether a candidate has any per-token list.
bool HasTokenOutputs(const v1::QuestionResult& result);

// Returns, for each node of `tree`, the lines to draw below it, without line ends. Tokens that are
// not in scope have no lines. Tokens that candidates share are shown once:
//
//   token          7        8
//   logprob  -1.0000  -0.5000
//   top 1       7 -1    8 -0.5
//
// Long runs and long lists of top tokens are cut and counted. Preconditions: `result` has passed
// CheckScoreResponse, and `tree` is that of the question.
std::vector<std::vector<std::string>> TokenLines(const v1::QuestionTree& tree,
                                                 const v1::QuestionResult& result);

}  // namespace canopy::client

#endif  // CLIENT_CLI_TOKEN_LINES_H_
