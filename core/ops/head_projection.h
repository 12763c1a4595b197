// How an attention layer makes its queries, keys and values.
#ifndef CORE_OPS_HEAD_PROJECTION_H_
#define CORE_OPS_HEAD_PROJECTION_H_

#include "ATen/core/Tensor.h"

namespace canopy {

// H hidden size, Q query and K kv heads of D elements. All in the compute dtype.
struct HeadProjection {
  at::Tensor weight;   // [(Q + 2K) x D, H]: query heads, then key heads, then value heads
  at::Tensor bias;     // [(Q + 2K) x D]; undefined if the model has none
  at::Tensor qk_norm;  // [Q + K, D]: each query and key head's copy of the weight of its RMS norm;
                       // undefined if heads are not normed
};

}  // namespace canopy

#endif  // CORE_OPS_HEAD_PROJECTION_H_
