// The weights with which an attention layer computes its queries, keys and values.
#ifndef CORE_OPS_HEAD_PROJECTION_H_
#define CORE_OPS_HEAD_PROJECTION_H_

#include "ATen/core/Tensor.h"

namespace canopy {

// H is the hidden size, Q the number of query heads, K the number of kv heads and D the head
// dimension. All tensors are in the compute dtype.
struct HeadProjection {
  at::Tensor weight;   // [(Q + 2K) x D, H]: query heads, then key heads, then value heads
  at::Tensor bias;     // [(Q + 2K) x D]; undefined if the model has none
  at::Tensor qk_norm;  // [Q + K, D]: the RMS norm weight of each query and key head;
                       // undefined if the model has none
};

}  // namespace canopy

#endif  // CORE_OPS_HEAD_PROJECTION_H_
