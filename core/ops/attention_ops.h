// Scaled-dot-product attention through LibTorch, in the two forms that the backends need. Picks
// arguments that LibTorch's fused kernels accept on each device. Throws LibTorch's errors.
//
// Shapes: q [batch, queries, query heads, head dim]; k and v [batch, keys, kv heads, head dim] with
// kv heads dividing query heads; the result has q's shape. One dtype for all; scale 1/sqrt(head
// dim); the softmax accumulates in float32. `dropout` is the share of probabilities that training
// drops, by LibTorch's generator. All are differentiable.
#ifndef CORE_OPS_ATTENTION_OPS_H_
#define CORE_OPS_ATTENTION_OPS_H_

#include <cstdint>

#include "ATen/core/Tensor.h"

namespace canopy {

// Causal, aligned to the lower right corner: with keys >= queries, the last query reads all keys
// and each earlier one a key less.
at::Tensor CausalAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           double dropout = 0);

// Causal over as many keys as queries, each query reading the last `window` keys up to its own.
at::Tensor SlidingAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            int64_t window, double dropout = 0);

// `mask` is added to the scores: q's dtype, broadcastable to [batch, query heads, queries, keys].
// Every query must have a key whose mask is finite.
at::Tensor MaskedAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const at::Tensor& mask, double dropout = 0);

}  // namespace canopy

#endif  // CORE_OPS_ATTENTION_OPS_H_
