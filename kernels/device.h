// Whether kernels were compiled in, and what the current device can run. Called once a device
// before the first launch.
#ifndef KERNELS_DEVICE_H_
#define KERNELS_DEVICE_H_

#include <cstdint>

#include "cuda_runtime_api.h"

namespace canopy::kernels {

// False in a build without nvcc: every Launch function then returns cudaErrorNotSupported.
bool IsBuilt();

// A short description of an error; static storage.
const char* ErrorText(cudaError_t error);

struct DeviceInfo {
  int32_t compute_capability = 0;  // 10 x major + minor, 90 for Hopper
  int32_t num_multiprocessors = 0;
};

// Reads the current device and sets the function attributes that its kernels need (large shared
// memory). Not under graph capture. Thread-safe, and may be repeated.
cudaError_t Init(DeviceInfo* device);

}  // namespace canopy::kernels

#endif  // KERNELS_DEVICE_H_
