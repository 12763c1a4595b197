// The trie of a question's paths as the client sees it: what Explain would answer, without a
// server.
#ifndef CLIENT_PATH_TREE_H_
#define CLIENT_PATH_TREE_H_

#include "canopy/v1/types.pb.h"

namespace canopy::client {

// Runs of tokens split at branches and endpoints, depth first, children in the order in which the
// candidates first reach them. Takes time linear in the tokens of the paths.
v1::QuestionTree BuildPathTree(const v1::Question& question);

}  // namespace canopy::client

#endif  // CLIENT_PATH_TREE_H_
