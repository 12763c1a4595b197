// Selects the device and dtype to compute with, and makes LibTorch's process-wide settings.
#ifndef CORE_OPS_DEVICE_H_
#define CORE_OPS_DEVICE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "c10/core/Device.h"
#include "c10/core/ScalarType.h"

namespace canopy {

// Accepts "cpu", "cuda" (= cuda:0), "cuda:N", and "auto" (= cuda:0 if it can run a kernel, else
// cpu). Returns INVALID_ARGUMENT for any other name, and FAILED_PRECONDITION if a named CUDA device
// does not exist or cannot run a kernel.
absl::StatusOr<c10::Device> ResolveDevice(absl::string_view name);

// Accepts "float32", "bfloat16", "float16", and "auto" (= bfloat16 on CUDA, float32 on a CPU).
// Returns INVALID_ARGUMENT for any other name.
absl::StatusOr<c10::ScalarType> ResolveDtype(absl::string_view name, c10::Device device);

// Returns the name that ResolveDtype accepts for `dtype`, which must be one of its types.
absl::string_view DtypeName(c10::ScalarType dtype);

// Returns the name of the hardware and, on a CPU, LibTorch's thread count. It labels measured
// times.
std::string DescribeDevice(c10::Device device);

// Sets LibTorch's thread count (0 = one per core) and disables TF32 for float32 products. The
// settings are process-wide: the first call makes them, later calls are no-ops.
void ConfigureTorch(int32_t threads);

}  // namespace canopy

#endif  // CORE_OPS_DEVICE_H_
