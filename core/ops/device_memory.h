// How much memory a device has, and how much of it this process holds.
#ifndef CORE_OPS_DEVICE_MEMORY_H_
#define CORE_OPS_DEVICE_MEMORY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "c10/core/Device.h"

namespace canopy {

struct DeviceBytes {
  int64_t allocated = 0;  // in tensors
  int64_t reserved = 0;   // held by LibTorch's allocator
  int64_t total = 0;      // of the device
};

// All 0 on a CPU, and where the device does not answer. From any thread.
DeviceBytes ReadDeviceBytes(c10::Device device);

// Bytes that this process can still take on `device`, what LibTorch holds there unused included; on
// a CPU as AvailableHostBytes. From any thread. Errors as GuardTorch returns them.
absl::StatusOr<int64_t> AvailableBytes(c10::Device device);

}  // namespace canopy

#endif  // CORE_OPS_DEVICE_MEMORY_H_
