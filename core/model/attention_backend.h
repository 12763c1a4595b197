// The interface through which the decoder's layers compute attention.
#ifndef CORE_MODEL_ATTENTION_BACKEND_H_
#define CORE_MODEL_ATTENTION_BACKEND_H_

#include "ATen/core/Tensor.h"

namespace canopy {

// Attention over the tokens of one TreePlan. Immutable. Must be used from the thread that runs the
// forward.
class AttentionBackend {
 public:
  virtual ~AttentionBackend() = default;

  // Each token attends to itself and its ancestors. q [tokens, query heads, head dim]; k and v
  // [tokens, kv heads, head dim]; tokens are in grid order. Returns [tokens, query heads, head
  // dim]. The result of a padding slot is finite if the slot's own inputs are, and no token reads
  // it. Throws LibTorch's errors.
  virtual at::Tensor Forward(const at::Tensor& q, const at::Tensor& k,
                             const at::Tensor& v) const = 0;
};

}  // namespace canopy

#endif  // CORE_MODEL_ATTENTION_BACKEND_H_
