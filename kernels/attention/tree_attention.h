// Attention over a flat forest. Tokens are in depth-first order, and token i reads token j exactly
// when j <= i <= exit[j], where exit[j] is the last token of j's subtree.
//
//   token  0 1 2 3 4    tree  0 - 1 - 2
//   exit   4 2 2 4 4            \ 3 - 4
//
// Call LaunchTreeVisibility once per forward, then LaunchTreeAttention once per layer on the same
// stream. Neither allocates, synchronizes, logs or reads the environment; both are safe under graph
// capture. Call Init (device.h) before either. core/ops checks shapes and writes error messages.
#ifndef KERNELS_ATTENTION_TREE_ATTENTION_H_
#define KERNELS_ATTENTION_TREE_ATTENTION_H_

#include <cstdint>

#include "cuda_runtime_api.h"
#include "kernels/attention/tree_attention_config.h"

namespace canopy::kernels {

// Lists, for every query tile, the chunks of keys that at least one of its queries reads.
struct TreeVisibilityParams {
  // [num_tokens]; exit[j] is in j..num_tokens - 1, and subtrees nest
  const int32_t* exit = nullptr;
  // LayOutWorkspace(shape, instance).total_bytes bytes, aligned to 128. Use it on one stream at a
  // time.
  void* workspace = nullptr;
  TreeAttentionShape shape;
  TreeAttentionInstance instance = TreeAttentionInstance::kPortable;
};
cudaError_t LaunchTreeVisibility(const TreeVisibilityParams& params, cudaStream_t stream);

// Strides, in elements, of a [num_tokens, heads, head_dim] array. The last dimension is dense;
// pointers and strides are multiples of 16 bytes.
struct HeadStrides {
  int64_t token = 0;
  int64_t head = 0;
};

struct TreeAttentionParams {
  // Inputs, in the shape's data type. A non-finite value may spread to tokens that do not read it
  // (0 x NaN). Memory after the last token or between rows is never read.
  const void* q = nullptr;  // [num_tokens, num_query_heads, head_dim]
  const void* k = nullptr;  // [num_tokens, num_kv_heads, head_dim]
  const void* v = nullptr;  // shape as k
  HeadStrides q_strides;
  HeadStrides k_strides;
  HeadStrides v_strides;
  // Output, in the shape's data type. Products and the softmax accumulate in float32.
  void* out = nullptr;  // shape as q
  HeadStrides out_strides;
  // [num_tokens, num_query_heads], natural log of the row's sum of exp(scale x score); null = not
  // computed
  float* log_sum_exp = nullptr;
  // The workspace written by LaunchTreeVisibility for the same shape and instance.
  void* workspace = nullptr;
  // Sizes.
  TreeAttentionShape shape;
  TreeAttentionInstance instance = TreeAttentionInstance::kPortable;
  int32_t num_multiprocessors = 0;  // from DeviceInfo
  float scale = 0;                  // > 0, factor on scores: normally 1 / sqrt(head_dim)
};
// Returns cudaErrorInvalidValue for an unsupported shape or a misaligned pointer or stride, and
// cudaErrorNotSupported for an instance that the device does not support. Results are
// bit-reproducible.
cudaError_t LaunchTreeAttention(const TreeAttentionParams& params, cudaStream_t stream);

}  // namespace canopy::kernels

#endif  // KERNELS_ATTENTION_TREE_ATTENTION_H_
