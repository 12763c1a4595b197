// The pieces of a decoder layer that are neither attention nor rotary embedding.
// Results are rounded where transformers rounds, or less often. All throw LibTorch's errors.
#ifndef CORE_MODEL_LAYERS_H_
#define CORE_MODEL_LAYERS_H_

#include "ATen/core/Tensor.h"

namespace canopy {

// x / sqrt(mean(x^2) + eps) * weight over the last dimension, computed in float32.
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps);

// The same for heads that have a weight each: x [tokens, heads, head dim], weight [heads, head
// dim].
at::Tensor HeadRmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps);

// silu(gate) * up. gate_up [tokens, 2 x intermediate], gate first -> [tokens, intermediate].
at::Tensor GatedSilu(const at::Tensor& gate_up);

// sum += rows x weight + bias, if there is one, in place: the product adds into the sum itself,
// which is one pass over memory less and one rounding less. rows [n, in], weight [in, out], sum [n,
// out].
void AddProduct(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias,
                const at::Tensor& sum);

}  // namespace canopy

#endif  // CORE_MODEL_LAYERS_H_
