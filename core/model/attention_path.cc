#include "core/model/attention_path.h"

#include "core/ops/attention_ops.h"

namespace canopy {

at::Tensor PathAttention::Forward(const at::Tensor& q, const at::Tensor& k,
                                  const at::Tensor& v) const {
  return CausalAttention(q.unflatten(0, {rows_, columns_}), k.unflatten(0, {rows_, columns_}),
                         v.unflatten(0, {rows_, columns_}))
      .flatten(0, 1);
}

}  // namespace canopy
