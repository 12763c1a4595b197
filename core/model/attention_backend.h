// What the decoder's layers know of attention: nothing but this.
#ifndef CORE_MODEL_ATTENTION_BACKEND_H_
#define CORE_MODEL_ATTENTION_BACKEND_H_

#include "ATen/core/Tensor.h"

namespace canopy {

// Attention over the tokens of one TreePlan. Immutable; used from the thread that runs the forward.
class AttentionBackend {
 public:
  virtual ~AttentionBackend() = default;

  // q [tokens, query heads, head dim], k and v [tokens, kv heads, head dim], in grid order ->
  // [tokens, query heads, head dim]: each token attends to itself and its ancestors. What a padding
  // slot gets is finite whenever its own inputs are, and is never read by a token. Throws
  // LibTorch's errors.
  virtual at::Tensor Forward(const at::Tensor& q, const at::Tensor& k,
                             const at::Tensor& v) const = 0;
};

}  // namespace canopy

#endif  // CORE_MODEL_ATTENTION_BACKEND_H_
