// Finds paths that end in a classifier's padding token.
#ifndef SERVER_WIRE_PAD_ENDING_H_
#define SERVER_WIRE_PAD_ENDING_H_

#include "core/engine/types.h"
#include "core/tree/path_batch.h"

namespace canopy::server {

// Returns whether a path whose score is asked for ends in the model's padding token. The score is
// that of this token; the classifier of transformers would read the last other one. O(paths).
bool ScoresAPadEndedPath(const PathBatch& batch, const OutputSelection& outputs,
                         const ModelInfo& model);

}  // namespace canopy::server

#endif  // SERVER_WIRE_PAD_ENDING_H_
