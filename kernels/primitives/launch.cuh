// How kernels start. On compute capability 9.0 and newer a kernel may be set up while the one
// before it on the stream still runs (programmatic dependent launch), which hides most of the cost
// of a launch where kernels are short. Every kernel of this folder therefore calls
// WaitForEarlierKernels before it touches memory of others, weights of the model aside: those were
// written long before.
#ifndef KERNELS_PRIMITIVES_LAUNCH_CUH_
#define KERNELS_PRIMITIVES_LAUNCH_CUH_

#include <cstddef>
#include <cstdint>

#include "cuda_runtime_api.h"

namespace canopy::kernels {

// Set by Init where the device can.
void AllowEarlyLaunch(bool allowed);
bool IsEarlyLaunchAllowed();

struct LaunchShape {
  int32_t blocks = 0;
  int32_t threads = 0;
  size_t shared_bytes = 0;
  int32_t cluster_blocks = 1;  // blocks that share their memory
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

// Returns once all earlier kernels of the stream have finished and their writes are visible; lets
// the next kernel be set up meanwhile.
__device__ __forceinline__ void WaitForEarlierKernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace canopy::kernels

#endif  // KERNELS_PRIMITIVES_LAUNCH_CUH_
