// The pieces of a decoder layer other than attention and rotary embedding. They round where
// transformers rounds, or less often. All throw LibTorch's errors.
#ifndef CORE_MODEL_LAYERS_H_
#define CORE_MODEL_LAYERS_H_

#include "ATen/core/Tensor.h"

namespace canopy {

// Returns x / sqrt(mean(x^2) + eps) * weight over the last dimension, computed in float32.
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps);

// RmsNorm for heads with a weight each: x [tokens, heads, head dim], weight [heads, head dim].
at::Tensor HeadRmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps);

// Returns silu(gate) * up. gate_up [tokens, 2 x intermediate], gate first -> [tokens,
// intermediate].
at::Tensor GatedSilu(const at::Tensor& gate_up);

// Adds rows x weight, and bias if it is defined, to `sum` in place. Adding the product directly
// into the sum saves one pass over memory and one rounding. rows [n, in], weight [in, out], sum [n,
// out].
void AddProduct(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias,
                const at::Tensor& sum);

}  // namespace canopy

#endif  // CORE_MODEL_LAYERS_H_
