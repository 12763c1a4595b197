// The trie of a question's paths, computed by the client: the tree that Explain would return,
// without a server.
#ifndef CLIENT_PATH_TREE_H_
#define CLIENT_PATH_TREE_H_

#include "canopy/v1/types.pb.h"

namespace canopy::client {

// Returns runs of tokens that are split at branches and endpoints, depth first, with children in
// the order in which the candidates reach them. Linear in the tokens of the paths.
v1::QuestionTree BuildPathTree(const v1::Question& question);

}  // namespace canopy::client

#endif  // CLIENT_PATH_TREE_H_
