#include "core/model/attention_dense.h"

#include <cstdint>
#include <limits>

#include "ATen/ops/arange.h"
#include "ATen/ops/zeros.h"
#include "core/ops/attention_ops.h"

namespace canopy {
namespace {

// CUDA's kernels need mask rows that start at multiples of this many elements. Without the
// alignment, LibTorch would copy the mask in each layer.
constexpr int64_t kMaskRowAlignment = 16;

}  // namespace

DenseAttention::DenseAttention(const at::Tensor& exit, at::ScalarType dtype, double dropout)
    : dropout_(dropout) {
  const int64_t rows = exit.size(0);
  const int64_t columns = exit.size(1);
  const at::Tensor index = at::arange(columns, exit.options());
  const at::Tensor query = index.unsqueeze(1);
  const at::Tensor hidden =
      index.unsqueeze(0).gt(query).logical_or(query.gt(exit.unsqueeze(1))).unsqueeze(1);
  const int64_t aligned = (columns + kMaskRowAlignment - 1) / kMaskRowAlignment * kMaskRowAlignment;
  mask_ = at::zeros({rows, 1, columns, aligned}, exit.options().dtype(dtype))
              .narrow(3, 0, columns)
              .masked_fill_(hidden, -std::numeric_limits<double>::infinity());
}

at::Tensor DenseAttention::Forward(const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor& v) const {
  const int64_t rows = mask_.size(0);
  const int64_t columns = mask_.size(3);
  return MaskedAttention(q.unflatten(0, {rows, columns}), k.unflatten(0, {rows, columns}),
                         v.unflatten(0, {rows, columns}), mask_, dropout_)
      .flatten(0, 1);
}

}  // namespace canopy
