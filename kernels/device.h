// Tells if kernels are compiled in and what the current device supports. Init must be called once
// per device before the first launch.
#ifndef KERNELS_DEVICE_H_
#define KERNELS_DEVICE_H_

#include <cstdint>

#include "cuda_runtime_api.h"

namespace canopy::kernels {

// Returns false in a build without nvcc. Every Launch function then returns cudaErrorNotSupported.
bool IsBuilt();

// Returns a short description of an error in static storage.
const char* ErrorText(cudaError_t error);

struct DeviceInfo {
  int32_t compute_capability = 0;  // 10 x major + minor, 90 for Hopper
  int32_t num_multiprocessors = 0;
};

// Reads the properties of the current device and sets the function attributes that its kernels need
// (large shared memory). Returns cudaErrorNotSupported below compute capability 8.0. Must not be
// called under graph capture. Thread-safe, and may be called repeatedly.
cudaError_t Init(DeviceInfo* device);

}  // namespace canopy::kernels

#endif  // KERNELS_DEVICE_H_
