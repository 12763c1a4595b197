// Checks that the tree of an Explain answer spells exactly the question's paths; see
// answer_check.h. A tree that passes is safe to draw: parents come before their children, and every
// node has a candidate at or below it.
#ifndef CLIENT_TREE_CHECK_H_
#define CLIENT_TREE_CHECK_H_

#include "absl/status/status.h"
#include "canopy/v1/types.pb.h"

namespace canopy::client {

// Returns DATA_LOSS with the place in the tree. Linear in the tokens of the question's paths.
absl::Status CheckTree(const v1::Question& question, const v1::QuestionTree& tree);

}  // namespace canopy::client

#endif  // CLIENT_TREE_CHECK_H_
