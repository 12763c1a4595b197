// The Hopper form of tree attention. Only tree_attention.cu calls it.
#ifndef KERNELS_ATTENTION_TREE_ATTENTION_HOPPER_H_
#define KERNELS_ATTENTION_TREE_ATTENTION_HOPPER_H_

#include "cuda_runtime_api.h"
#include "kernels/attention/tree_attention.h"

namespace canopy::kernels {

// Call it once per device, before the first launch.
cudaError_t InitTreeAttentionHopper();

// Like LaunchTreeAttention, for the kHopper instances on a device of compute capability 9.0.
cudaError_t LaunchTreeAttentionHopper(const TreeAttentionParams& params, cudaStream_t stream);

}  // namespace canopy::kernels

#endif  // KERNELS_ATTENTION_TREE_ATTENTION_HOPPER_H_
