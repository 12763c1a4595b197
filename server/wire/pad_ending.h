// Finds paths that end in a classifier's padding token.
#ifndef SERVER_WIRE_PAD_ENDING_H_
#define SERVER_WIRE_PAD_ENDING_H_

#include "core/engine/types.h"
#include "core/tree/path_batch.h"

namespace canopy::server {

// Returns whether a path with a requested score ends in the model's padding token. Its score is
// computed at that token, but the classifier of transformers would use the last other token.
// O(paths).
bool ScoresAPadEndedPath(const PathBatch& batch, const OutputSelection& outputs,
                         const ModelInfo& model);

}  // namespace canopy::server

#endif  // SERVER_WIRE_PAD_ENDING_H_
