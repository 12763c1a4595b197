// The form of tree attention for devices of compute capability 8.0 and newer. Only
// tree_attention.cu calls it.
#ifndef KERNELS_ATTENTION_TREE_ATTENTION_PORTABLE_H_
#define KERNELS_ATTENTION_TREE_ATTENTION_PORTABLE_H_

#include "cuda_runtime_api.h"
#include "kernels/attention/tree_attention.h"

namespace canopy::kernels {

// Call it once per device, before the first launch.
cudaError_t InitTreeAttentionPortable();

// Like LaunchTreeAttention, for the instance kPortable.
cudaError_t LaunchTreeAttentionPortable(const TreeAttentionParams& params, cudaStream_t stream);

}  // namespace canopy::kernels

#endif  // KERNELS_ATTENTION_TREE_ATTENTION_PORTABLE_H_
