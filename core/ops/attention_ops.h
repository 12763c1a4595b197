// Scaled-dot-product attention through LibTorch, in the three forms that the backends need. Chooses
// arguments that LibTorch's fused kernels accept on each device. Throws LibTorch's errors.
//
// Shapes: q [batch, queries, query heads, head dim]; k and v [batch, keys, kv heads, head dim],
// where the number of kv heads divides the number of query heads; the result has q's shape. All
// tensors have one dtype. The scale is 1/sqrt(head dim) and the softmax accumulates in float32.
// `dropout` is the fraction of probabilities that training drops, drawn from LibTorch's generator.
// All functions are differentiable.
#ifndef CORE_OPS_ATTENTION_OPS_H_
#define CORE_OPS_ATTENTION_OPS_H_

#include <cstdint>

#include "ATen/core/Tensor.h"

namespace canopy {

// Causal attention, aligned to the lower right corner: with keys >= queries, the last query reads
// all keys and each earlier query reads one key less.
at::Tensor CausalAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           double dropout = 0);

// Causal attention with as many keys as queries. Each query reads the last `window` keys up to and
// including its own.
at::Tensor SlidingAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            int64_t window, double dropout = 0);

// `mask` is added to the scores. It has q's dtype and is broadcastable to [batch, query heads,
// queries, keys]. Every query must have at least one key whose mask is finite.
at::Tensor MaskedAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const at::Tensor& mask, double dropout = 0);

}  // namespace canopy

#endif  // CORE_OPS_ATTENTION_OPS_H_
