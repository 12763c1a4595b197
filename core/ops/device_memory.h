// Reads how much memory a device has, and how much of it this process holds.
#ifndef CORE_OPS_DEVICE_MEMORY_H_
#define CORE_OPS_DEVICE_MEMORY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "c10/core/Device.h"

namespace canopy {

struct DeviceBytes {
  int64_t allocated = 0;  // bytes in tensors
  int64_t reserved = 0;   // bytes held by LibTorch's allocator
  int64_t total = 0;      // bytes of the device
};

// Returns all zeros for a CPU and if the device cannot be read. Thread-safe.
DeviceBytes ReadDeviceBytes(c10::Device device);

// Returns the bytes that this process can still allocate on `device`, including unused memory held
// by LibTorch. For a CPU, returns AvailableHostBytes. Thread-safe. Returns the errors of
// GuardTorch.
absl::StatusOr<int64_t> AvailableBytes(c10::Device device);

}  // namespace canopy

#endif  // CORE_OPS_DEVICE_MEMORY_H_
