// What the fused backend computes with beside matrix products: the kernels of kernels/ as calls on
// tensors. An interface, so that the backend's algebra is tested where there is no GPU.
//
// T tokens of a flat forest, H hidden size, Q query and K kv heads of D elements. Tensors are dense
// and of the compute dtype unless said otherwise; `qkv` [T, (Q + 2K) x D] has a token's query
// heads, then its key heads, then its value heads.
#ifndef CORE_OPS_KERNEL_OPS_H_
#define CORE_OPS_KERNEL_OPS_H_

#include <cstdint>

#include "ATen/core/Tensor.h"
#include "core/ops/head_projection.h"

namespace canopy {

// What the kernels need to know of a model.
struct KernelModel {
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;  // of dense MLPs; 0 where no layer has one
  int64_t num_query_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  double rms_norm_eps = 0;
  double score_scale = 0;          // of attention scores: normally 1 / sqrt(D)
  at::Tensor inverse_frequencies;  // [D / 2] float32, of the rotary embedding

  int64_t query_size() const { return num_query_heads * head_dim; }
  int64_t kv_size() const { return num_kv_heads * head_dim; }
};

// What the host knows of a flat forest.
struct ForestShape {
  int32_t num_tokens = 0;       // > 0
  int32_t max_path_tokens = 0;  // the longest path, or more
  int64_t visible_pairs = 0;    // sum over tokens of depth + 1, or about that
};

// Immutable; used from the thread that runs the forward. All calls throw LibTorch's errors, and are
// safe under graph capture.
class KernelOps {
 public:
  virtual ~KernelOps() = default;

  // out[i] = source[indices[i]]. source [any, n], indices [rows] int32, which the caller has
  // checked; out [rows, n].
  virtual void GatherRows(const at::Tensor& source, const at::Tensor& indices,
                          const at::Tensor& out) const = 0;

  // rows / sqrt(mean(rows^2) + eps) * weight. rows and out [n, H], weight [H].
  virtual void RmsNorm(const at::Tensor& rows, const at::Tensor& weight,
                       const at::Tensor& out) const = 0;

  // Queries, keys and values of `rows` [T, H]: each head of the product plus bias; query and key
  // heads then RMS-normed and rotated by the rotary embedding. position_ids [T] int32.
  virtual void ProjectHeads(const at::Tensor& rows, const HeadProjection& projection,
                            const at::Tensor& position_ids, const at::Tensor& qkv) const = 0;

  // silu(rows x gate^T) * (rows x up^T). rows [n, H], gate_up [2 x intermediate, H], gate first;
  // out [n, intermediate]; scratch [n, GatedScratchColumns()] is overwritten.
  virtual void GatedProduct(const at::Tensor& rows, const at::Tensor& gate_up,
                            const at::Tensor& scratch, const at::Tensor& out) const = 0;
  // 2 x intermediate where the device has no kernel for the whole, else 0.
  virtual int64_t GatedScratchColumns() const = 0;

  // What TreeAttention wants to know of the forest whose token i reads token j exactly when
  // j <= i <= exit[j]: once a forward. exit [T] int32.
  virtual at::Tensor ListVisible(const at::Tensor& exit, const ForestShape& shape) const = 0;

  // `visible` as ListVisible returned it for the same shape. out [T, Q x D].
  virtual void TreeAttention(const at::Tensor& qkv, const at::Tensor& visible,
                             const ForestShape& shape, const at::Tensor& out) const = 0;
};

}  // namespace canopy

#endif  // CORE_OPS_KERNEL_OPS_H_
