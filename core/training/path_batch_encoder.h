// The library entry for plain padded path batches, as training code holds them.
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

// A vector for each candidate: [questions, max candidates, hidden], on the encoder's device in its
// compute dtype; zeros in empty slots. Plans and routes as `options` say (their hidden size is the
// model's) and runs in parts of at most `max_batch_tokens`.
// INVALID_ARGUMENT for a malformed batch or a token outside the vocabulary; otherwise what
// RequestPlan::Create and TreeEncoder::Encode return.
absl::StatusOr<at::Tensor> EncodePathBatch(TreeEncoder& encoder, const PaddedPaths& padded,
                                           RouteOptions options, int64_t max_batch_tokens);

// The same, differentiable, by TrainableEncoder::Encode.
absl::StatusOr<at::Tensor> EncodePathBatch(const TrainableEncoder& encoder,
                                           const PaddedPaths& padded, RouteOptions options,
                                           int64_t max_batch_tokens,
                                           const TrainingOptions& training);

}  // namespace canopy

#endif  // CORE_TRAINING_PATH_BATCH_ENCODER_H_
