// Rotary position embeddings: the frequencies of a model, and the cosines and sines of a forward.
#ifndef CORE_MODEL_ROTARY_H_
#define CORE_MODEL_ROTARY_H_

#include <cstdint>

#include "ATen/core/Tensor.h"
#include "core/checkpoint/rope_config.h"

namespace canopy {

// The frequencies of one model.
struct RotaryFrequencies {
  at::Tensor inverse;  // [head dim / 2] float32
  double scale = 1.0;  // factor on cosines and sines
};

// Computes each step in float32 as transformers does, so that the angles are bit-identical. Returns
// tensors on the CPU. Throws LibTorch's errors.
RotaryFrequencies MakeRotaryFrequencies(const RopeConfig& rope, int64_t head_dim);

// The tables of one forward: [tokens, 1, head dim / 2] in the compute dtype.
struct RotaryTables {
  at::Tensor cos;
  at::Tensor sin;
};

// `position_ids` [tokens] must be on the device of the frequencies. Angles are float32. Throws
// LibTorch's errors.
RotaryTables MakeRotaryTables(const at::Tensor& position_ids, const RotaryFrequencies& frequencies,
                              at::ScalarType dtype);

// Rotates the pair (i, i + head dim / 2) of each head by angle i of its token. x [tokens, heads,
// head dim]. Not differentiable, because it writes into the halves of the result. Throws LibTorch's
// errors.
at::Tensor ApplyRotary(const at::Tensor& x, const RotaryTables& tables);

// Like ApplyRotary, but differentiable, at the cost of a copy. The result has the wider of the two
// dtypes.
at::Tensor ApplyRotaryForTraining(const at::Tensor& x, const RotaryTables& tables);

}  // namespace canopy

#endif  // CORE_MODEL_ROTARY_H_
