#include "core/model/attention_path.h"

#include "core/ops/attention_ops.h"

namespace canopy {

at::Tensor PathAttention::Forward(const at::Tensor& q, const at::Tensor& k,
                                  const at::Tensor& v) const {
  const at::Tensor queries = q.unflatten(0, {rows_, columns_});
  const at::Tensor keys = k.unflatten(0, {rows_, columns_});
  const at::Tensor values = v.unflatten(0, {rows_, columns_});
  return (window_ > 0 ? SlidingAttention(queries, keys, values, window_, dropout_)
                      : CausalAttention(queries, keys, values, dropout_))
      .flatten(0, 1);
}

}  // namespace canopy
