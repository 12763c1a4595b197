// Rotary position embeddings: a model's frequencies, and the angles of one forward's tokens.
#ifndef CORE_MODEL_ROTARY_H_
#define CORE_MODEL_ROTARY_H_

#include <cstdint>

#include "ATen/core/Tensor.h"
#include "core/checkpoint/rope_config.h"

namespace canopy {

// Of one model.
struct RotaryFrequencies {
  at::Tensor inverse;  // [head dim / 2] float32
  double scale = 1.0;  // Cosines and sines are multiplied by it.
};

// In float32 step by step as transformers does, so that the angles are the same bits. On the CPU.
// Throws LibTorch's errors.
RotaryFrequencies MakeRotaryFrequencies(const RopeConfig& rope, int64_t head_dim);

// Of one forward: [tokens, 1, head dim / 2] in the compute dtype.
struct RotaryTables {
  at::Tensor cos;
  at::Tensor sin;
};

// `position_ids` [tokens], on the device of the frequencies. Angles are float32. Throws LibTorch's
// errors.
RotaryTables MakeRotaryTables(const at::Tensor& position_ids, const RotaryFrequencies& frequencies,
                              at::ScalarType dtype);

// Turns the pair (i, i + head dim / 2) of each head by its token's angle i. x [tokens, heads, head
// dim]. Not differentiable: writes into the result's halves. Throws LibTorch's errors.
at::Tensor ApplyRotary(const at::Tensor& x, const RotaryTables& tables);

// The same, differentiable, at the price of a copy. Of the wider type of the two.
at::Tensor ApplyRotaryForTraining(const at::Tensor& x, const RotaryTables& tables);

}  // namespace canopy

#endif  // CORE_MODEL_ROTARY_H_
