// Attention over a flat forest: tokens in depth-first order, token i reads token j exactly when
// j <= i <= exit[j], where exit[j] is the last token of j's subtree.
//
//   token  0 1 2 3 4    tree  0 - 1 - 2
//   exit   4 2 2 4 4            \ 3 - 4
//
// LaunchTreeVisibility once a forward, then LaunchTreeAttention once a layer on the same stream.
// Neither allocates, synchronises, logs or reads the environment; both are safe under graph
// capture. Init (device.h) comes before either. core/ops checks shapes and makes messages.
#ifndef KERNELS_ATTENTION_TREE_ATTENTION_H_
#define KERNELS_ATTENTION_TREE_ATTENTION_H_

#include <cstdint>

#include "cuda_runtime_api.h"
#include "kernels/attention/tree_attention_config.h"

namespace canopy::kernels {

// Lists, for every query tile, the chunks of keys that any of its queries sees.
struct TreeVisibilityParams {
  const int32_t* exit = nullptr;  // [num_tokens]: exit[j] in j..num_tokens - 1, subtrees nested
  // LayOutWorkspace(shape, instance).total_bytes, aligned to 128. One stream at a time.
  void* workspace = nullptr;
  TreeAttentionShape shape;
  TreeAttentionInstance instance = TreeAttentionInstance::kPortable;
};
cudaError_t LaunchTreeVisibility(const TreeVisibilityParams& params, cudaStream_t stream);

// Where the elements of a [num_tokens, heads, head_dim] array stand, in elements. The last
// dimension is dense; pointers and strides are multiples of 16 bytes.
struct HeadStrides {
  int64_t token = 0;
  int64_t head = 0;
};

struct TreeAttentionParams {
  // Inputs, of the shape's data type. A value that is not finite may spread to tokens that do not
  // read it (0 x NaN); what stands behind the last token or between rows is never read.
  const void* q = nullptr;  // [num_tokens, num_query_heads, head_dim]
  const void* k = nullptr;  // [num_tokens, num_kv_heads, head_dim]
  const void* v = nullptr;  // as k
  HeadStrides q_strides;
  HeadStrides k_strides;
  HeadStrides v_strides;
  // Outputs. Products and the softmax accumulate in float32.
  void* out = nullptr;  // as q
  HeadStrides out_strides;
  float* log_sum_exp = nullptr;  // [num_tokens, num_query_heads], natural log of the row's sum of
                                 // exp(scale x score); null = not wanted
  // As LaunchTreeVisibility left it for the same shape and instance.
  void* workspace = nullptr;
  // Sizes.
  TreeAttentionShape shape;
  TreeAttentionInstance instance = TreeAttentionInstance::kPortable;
  int32_t num_multiprocessors = 0;  // of DeviceInfo
  float scale = 0;                  // > 0, of the scores: normally 1 / sqrt(head_dim)
};
// cudaErrorInvalidValue for an unsupported shape or a misaligned pointer or stride;
// cudaErrorNotSupported for an instance that the device lacks. The result repeats bit for bit.
cudaError_t LaunchTreeAttention(const TreeAttentionParams& params, cudaStream_t stream);

}  // namespace canopy::kernels

#endif  // KERNELS_ATTENTION_TREE_ATTENTION_H_
