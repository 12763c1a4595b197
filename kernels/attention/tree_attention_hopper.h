// The Hopper form of tree attention, for tree_attention.cu alone.
#ifndef KERNELS_ATTENTION_TREE_ATTENTION_HOPPER_H_
#define KERNELS_ATTENTION_TREE_ATTENTION_HOPPER_H_

#include "cuda_runtime_api.h"
#include "kernels/attention/tree_attention.h"

namespace canopy::kernels {

// Once a device, before the first launch.
cudaError_t InitTreeAttentionHopper();

// As LaunchTreeAttention, for the kHopper instances on a device of compute capability 9.0.
cudaError_t LaunchTreeAttentionHopper(const TreeAttentionParams& params, cudaStream_t stream);

}  // namespace canopy::kernels

#endif  // KERNELS_ATTENTION_TREE_ATTENTION_HOPPER_H_
