#include <cstdint>

#include "kernels/attention/tree_attention.h"
#include "kernels/attention/tree_attention_hopper.h"
#include "kernels/attention/tree_attention_portable.h"

namespace canopy::kernels {
namespace {

constexpr int64_t kAlignmentBytes = 16;

bool IsAligned(const void* pointer, const HeadStrides& strides) {
  constexpr int64_t kElementBytes = 2;
  return reinterpret_cast<uintptr_t>(pointer) % kAlignmentBytes == 0 &&
         strides.token * kElementBytes % kAlignmentBytes == 0 &&
         strides.head * kElementBytes % kAlignmentBytes == 0;
}

}  // namespace

cudaError_t LaunchTreeAttention(const TreeAttentionParams& params, cudaStream_t stream) {
  if (!IsSupported(params.shape) || !IsAligned(params.q, params.q_strides) ||
      !IsAligned(params.k, params.k_strides) || !IsAligned(params.v, params.v_strides) ||
      !IsAligned(params.out, params.out_strides) || !(params.scale > 0)) {
    return cudaErrorInvalidValue;
  }
  return params.instance == TreeAttentionInstance::kPortable
             ? LaunchTreeAttentionPortable(params, stream)
             : LaunchTreeAttentionHopper(params, stream);
}

}  // namespace canopy::kernels
