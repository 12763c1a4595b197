// Returns LibTorch's current CUDA stream to code that launches kernels.
#ifndef CORE_OPS_CUDA_STREAM_H_
#define CORE_OPS_CUDA_STREAM_H_

#include "cuda_runtime_api.h"

// There are no kernels to launch in a build without CUDA's headers, or with a LibTorch without
// CUDA.
#if defined(CANOPY_TORCH_HAS_CUDA) && !defined(KERNELS_NO_CUDA)
#define CANOPY_CUDA_STREAMS 1
#include "c10/cuda/CUDAStream.h"
#else
#define CANOPY_CUDA_STREAMS 0
#endif

namespace canopy {

inline constexpr bool kHasCudaStreams = CANOPY_CUDA_STREAMS != 0;

inline cudaStream_t CurrentCudaStream() {
#if CANOPY_CUDA_STREAMS
  return c10::cuda::getCurrentCUDAStream().stream();
#else
  return nullptr;
#endif
}

}  // namespace canopy

#endif  // CORE_OPS_CUDA_STREAM_H_
