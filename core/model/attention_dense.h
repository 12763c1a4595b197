// Attention over rows of a forest with an additive ancestor mask.
#ifndef CORE_MODEL_ATTENTION_DENSE_H_
#define CORE_MODEL_ATTENTION_DENSE_H_

#include "ATen/core/Tensor.h"
#include "core/model/attention_backend.h"

namespace canopy {

// The mask is built once on the device and shared by all layers and heads.
class DenseAttention : public AttentionBackend {
 public:
  // `exit` [rows, columns] int32: token i of a row reads token j exactly when j <= i <= exit[j].
  // `dtype` is the dtype of the tensors passed to Forward.
  DenseAttention(const at::Tensor& exit, at::ScalarType dtype, double dropout = 0);

  at::Tensor Forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) const override;

 private:
  at::Tensor mask_;  // [rows, 1, columns, columns], 0 or -inf
  double dropout_;
};

}  // namespace canopy

#endif  // CORE_MODEL_ATTENTION_DENSE_H_
