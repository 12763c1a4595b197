// Launches kernels. On compute capability 9.0 and newer, a kernel may be set up while the previous
// kernel of the stream is still running (programmatic dependent launch). This hides most of the
// launch cost of short kernels. Every kernel of this folder therefore calls WaitForEarlierKernels
// before it accesses memory that earlier kernels write. Weights of the model may be read sooner,
// because they were written long before.
#ifndef KERNELS_PRIMITIVES_LAUNCH_CUH_
#define KERNELS_PRIMITIVES_LAUNCH_CUH_

#include <cstddef>
#include <cstdint>

#include "cuda_runtime_api.h"

namespace canopy::kernels {

// Allows or forbids setting up kernels early. Init allows it on devices that support it.
void AllowEarlyLaunch(bool allowed);
bool IsEarlyLaunchAllowed();

struct LaunchShape {
  int32_t blocks = 0;
  int32_t threads = 0;
  size_t shared_bytes = 0;
  int32_t cluster_blocks = 1;  // blocks per cluster, which access each other's shared memory
};

template <typename... Parameters, typename... Arguments>
cudaError_t LaunchKernel(void (*kernel)(Parameters...), const LaunchShape& shape,
                         cudaStream_t stream, const Arguments&... arguments) {
  cudaLaunchAttribute attributes[2];
  uint32_t num_attributes = 0;
  if (IsEarlyLaunchAllowed()) {
    cudaLaunchAttribute& early = attributes[num_attributes++];
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster_blocks > 1) {
    cudaLaunchAttribute& cluster = attributes[num_attributes++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = shape.cluster_blocks;
    cluster.val.clusterDim.y = 1;
    cluster.val.clusterDim.z = 1;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(shape.blocks);
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = num_attributes;
  return cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

// Returns when all earlier kernels of the stream have finished and their writes are visible. Then
// allows the next kernel to be set up.
__device__ __forceinline__ void WaitForEarlierKernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace canopy::kernels

#endif  // KERNELS_PRIMITIVES_LAUNCH_CUH_
