// Encodes padded path batches, as training code has them. This is the entry point of the library.
#ifndef CORE_TRAINING_PATH_BATCH_ENCODER_H_
#define CORE_TRAINING_PATH_BATCH_ENCODER_H_

#include <cstdint>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "core/model/tree_encoder.h"
#include "core/training/trainable_encoder.h"
#include "core/tree/path_batch.h"
#include "core/tree/route.h"

namespace canopy {

// Returns a vector for each candidate: [questions, max candidates, hidden], on the encoder's device
// in its compute dtype; empty slots are zero. `options` control planning and routing, except that
// the hidden size is the model's. Runs in parts of at most `max_batch_tokens`. Returns
// INVALID_ARGUMENT for a malformed batch or a token outside the vocabulary, and the errors of
// RequestPlan::Create and TreeEncoder::Encode.
absl::StatusOr<at::Tensor> EncodePathBatch(TreeEncoder& encoder, const PaddedPaths& padded,
                                           RouteOptions options, int64_t max_batch_tokens);

// Like the function above, but differentiable, with TrainableEncoder::Encode.
absl::StatusOr<at::Tensor> EncodePathBatch(const TrainableEncoder& encoder,
                                           const PaddedPaths& padded, RouteOptions options,
                                           int64_t max_batch_tokens,
                                           const TrainingOptions& training);

}  // namespace canopy

#endif  // CORE_TRAINING_PATH_BATCH_ENCODER_H_
