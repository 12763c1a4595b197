// The pieces of a Qwen3 decoder layer that are not matrix products or attention. Results are
// rounded where transformers rounds, or less often. All throw LibTorch's errors.
#ifndef CORE_MODEL_LAYERS_H_
#define CORE_MODEL_LAYERS_H_

#include "ATen/core/Tensor.h"

namespace canopy {

// x / sqrt(mean(x^2) + eps) * weight over the last dimension, computed in float32.
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps);

// The same for heads that have a weight each: x [tokens, heads, head dim], weight [heads, head
// dim].
at::Tensor HeadRmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps);

// Angles of the rotary embedding, [tokens, 1, head dim / 2] in the compute dtype.
struct RotaryTables {
  at::Tensor cos;
  at::Tensor sin;
};

// `position_ids` [tokens]; `inverse_frequencies` [head dim / 2] float32. Angles are float32.
RotaryTables MakeRotaryTables(const at::Tensor& position_ids, const at::Tensor& inverse_frequencies,
                              at::ScalarType dtype);

// Turns the pair (i, i + head dim / 2) of each head by its token's angle i. x [tokens, heads, head
// dim].
at::Tensor ApplyRotary(const at::Tensor& x, const RotaryTables& tables);

// silu(gate) * up. gate_up [tokens, 2 x intermediate], gate first -> [tokens, intermediate].
at::Tensor GatedSilu(const at::Tensor& gate_up);

}  // namespace canopy

#endif  // CORE_MODEL_LAYERS_H_
