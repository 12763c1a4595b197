// Checks that the tree of an Explain answer spells exactly the question's paths; see
// answer_check.h. After it the tree is safe to draw: parents come before their children, and no
// node is there without a candidate below it.
#ifndef CLIENT_TREE_CHECK_H_
#define CLIENT_TREE_CHECK_H_

#include "absl/status/status.h"
#include "canopy/v1/types.pb.h"

namespace canopy::client {

// DATA_LOSS with the place inside the tree. Linear in the tokens of the question's paths.
absl::Status CheckTree(const v1::Question& question, const v1::QuestionTree& tree);

}  // namespace canopy::client

#endif  // CLIENT_TREE_CHECK_H_
