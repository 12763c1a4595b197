// The operations of the fused backend other than plain matrix products: calls of the kernels in
// kernels/ on tensors. This is an interface, so that the backend's algebra can be tested without a
// GPU.
//
// A flat forest has T tokens. H is the hidden size, Q the number of query heads, K the number of kv
// heads and D the head dimension. Unless stated otherwise, tensors are dense and in the compute
// dtype. `qkv` [T, (Q + 2K) x D] holds a token's query heads, then its key heads, then its value
// heads.
#ifndef CORE_OPS_KERNEL_OPS_H_
#define CORE_OPS_KERNEL_OPS_H_

#include <cstdint>

#include "ATen/core/Tensor.h"
#include "core/ops/head_projection.h"

namespace canopy {

// The properties of a model that the kernels need.
struct KernelModel {
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;  // of dense MLPs; 0 if no layer has one
  int64_t num_query_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  double rms_norm_eps = 0;
  double score_scale = 0;          // scale of attention scores: normally 1 / sqrt(D)
  at::Tensor inverse_frequencies;  // [D / 2] float32, for the rotary embedding

  int64_t query_size() const { return num_query_heads * head_dim; }
  int64_t kv_size() const { return num_kv_heads * head_dim; }
};

// The sizes of a flat forest that the host knows.
struct ForestShape {
  int32_t num_tokens = 0;       // > 0
  int32_t max_path_tokens = 0;  // tokens of the longest path, or an upper bound
  int64_t visible_pairs = 0;    // sum over tokens of depth + 1, may be approximate
};

// Immutable. Must be used from the thread that runs the forward. All calls throw LibTorch's errors
// and are safe under graph capture.
class KernelOps {
 public:
  virtual ~KernelOps() = default;

  // Computes out[i] = source[indices[i]]. source [any, n]; indices [rows] int32, checked by the
  // caller; out [rows, n].
  virtual void GatherRows(const at::Tensor& source, const at::Tensor& indices,
                          const at::Tensor& out) const = 0;

  // Computes rows / sqrt(mean(rows^2) + eps) * weight. rows and out [n, H], weight [H].
  virtual void RmsNorm(const at::Tensor& rows, const at::Tensor& weight,
                       const at::Tensor& out) const = 0;

  // Computes the queries, keys and values of `rows` [T, H]. Each head is the product plus bias;
  // query and key heads are then RMS-normalized, if the model has such norms, and rotated by the
  // rotary embedding. position_ids [T] int32.
  virtual void ProjectHeads(const at::Tensor& rows, const HeadProjection& projection,
                            const at::Tensor& position_ids, const at::Tensor& qkv) const = 0;

  // Computes silu(rows x gate^T) * (rows x up^T). rows [n, H]; gate_up [2 x intermediate, H], gate
  // first; out [n, intermediate]; scratch [n, GatedScratchColumns()] is overwritten.
  virtual void GatedProduct(const at::Tensor& rows, const at::Tensor& gate_up,
                            const at::Tensor& scratch, const at::Tensor& out) const = 0;
  // Returns 2 x intermediate if the device has no fused kernel for GatedProduct, else 0.
  virtual int64_t GatedScratchColumns() const = 0;

  // Returns the visibility lists that TreeAttention reads, for a forest whose token i reads token j
  // exactly when j <= i <= exit[j]. Call it once per forward. exit [T] int32.
  virtual at::Tensor ListVisible(const at::Tensor& exit, const ForestShape& shape) const = 0;

  // `visible` must be the result of ListVisible for the same shape. out [T, Q x D].
  virtual void TreeAttention(const at::Tensor& qkv, const at::Tensor& visible,
                             const ForestShape& shape, const at::Tensor& out) const = 0;
};

}  // namespace canopy

#endif  // CORE_OPS_KERNEL_OPS_H_
