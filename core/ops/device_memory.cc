#include "core/ops/device_memory.h"

#include "absl/status/status.h"
#include "base/host_memory.h"
#include "c10/core/DeviceGuard.h"
#include "core/ops/cuda_graph.h"
#include "core/ops/cuda_stream.h"
#include "core/ops/torch_guard.h"

#if CANOPY_CUDA_STREAMS
#include "c10/cuda/CUDACachingAllocator.h"
#endif

namespace canopy {

#if CANOPY_CUDA_STREAMS

DeviceBytes ReadDeviceBytes(c10::Device device) {
  DeviceBytes bytes;
  if (device.is_cpu()) {
    return bytes;
  }
  const absl::Status read = GuardTorch("reading device memory", [&]() -> absl::Status {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    bytes.allocated = stats.allocated_bytes[kAll].current;
    bytes.reserved = stats.reserved_bytes[kAll].current;
    bytes.total = static_cast<int64_t>(
        c10::cuda::CUDACachingAllocator::get()->getMemoryInfo(device.index()).second);
    return absl::OkStatus();
  });
  return read.ok() ? bytes : DeviceBytes();
}

#else

DeviceBytes ReadDeviceBytes(c10::Device /*device*/) { return {}; }

#endif

absl::StatusOr<int64_t> AvailableBytes(c10::Device device) {
  if (device.is_cpu()) {
    return AvailableHostBytes();
  }
  return GuardTorch("reading device memory", [&]() -> absl::StatusOr<int64_t> {
    const c10::DeviceGuard guard(device);
    const DeviceBytes held = ReadDeviceBytes(device);
    return FreeDeviceBytes() + held.reserved - held.allocated;
  });
}

}  // namespace canopy
