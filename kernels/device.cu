#include <atomic>
#include <cstdint>

#include "kernels/attention/tree_attention_hopper.h"
#include "kernels/attention/tree_attention_portable.h"
#include "kernels/device.h"
#include "kernels/primitives/launch.cuh"
#include "kernels/primitives/tensor_map.h"
#include "kernels/product/products_hopper.h"

namespace canopy::kernels {

namespace {

// One flag is enough, because all devices of a process are of the same kind.
std::atomic<bool> early_launch{false};

}  // namespace

void AllowEarlyLaunch(bool allowed) { early_launch.store(allowed, std::memory_order_relaxed); }
bool IsEarlyLaunchAllowed() { return early_launch.load(std::memory_order_relaxed); }

bool IsBuilt() { return true; }

const char* ErrorText(cudaError_t error) { return cudaGetErrorString(error); }

cudaError_t Init(DeviceInfo* device) {
  int ordinal = 0;
  cudaError_t error = cudaGetDevice(&ordinal);
  if (error != cudaSuccess) {
    return error;
  }
  int major = 0;
  int minor = 0;
  int multiprocessors = 0;
  const struct {
    cudaDeviceAttr attribute;
    int* value;
  } wanted[] = {{cudaDevAttrComputeCapabilityMajor, &major},
                {cudaDevAttrComputeCapabilityMinor, &minor},
                {cudaDevAttrMultiProcessorCount, &multiprocessors}};
  for (const auto& item : wanted) {
    error = cudaDeviceGetAttribute(item.value, item.attribute, ordinal);
    if (error != cudaSuccess) {
      return error;
    }
  }
  device->compute_capability = 10 * major + minor;
  device->num_multiprocessors = multiprocessors;
  if (device->compute_capability < 80) {
    return cudaErrorNotSupported;
  }
  AllowEarlyLaunch(device->compute_capability >= 90);
  error = InitTreeAttentionPortable();
  if (error != cudaSuccess || device->compute_capability != 90) {
    return error;
  }
  for (const auto init : {InitTensorMaps, InitTreeAttentionHopper, InitGatedProduct,
                          InitHeadProduct, InitLogitProduct}) {
    error = init();
    if (error != cudaSuccess) {
      return error;
    }
  }
  return cudaSuccess;
}

}  // namespace canopy::kernels
