// Which device and type to compute with, and LibTorch's process-wide settings.
#ifndef CORE_OPS_DEVICE_H_
#define CORE_OPS_DEVICE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "c10/core/Device.h"
#include "c10/core/ScalarType.h"

namespace canopy {

// "cpu", "cuda" (= cuda:0), "cuda:N", or "auto" = cuda:0 when it really runs a kernel, else cpu.
// INVALID_ARGUMENT for anything else, FAILED_PRECONDITION when a CUDA device that was named is not
// there or does not run a kernel.
absl::StatusOr<c10::Device> ResolveDevice(absl::string_view name);

// "float32", "bfloat16", "float16", or "auto" = bfloat16 on CUDA and float32 on a CPU.
// INVALID_ARGUMENT for anything else.
absl::StatusOr<c10::ScalarType> ResolveDtype(absl::string_view name, c10::Device device);

// The name that ResolveDtype takes for one of its types.
absl::string_view DtypeName(c10::ScalarType dtype);

// The hardware by name, and on a CPU how many threads LibTorch uses: what measured times belong to.
std::string DescribeDevice(c10::Device device);

// Sets LibTorch's threads (0 = one a core) and keeps float32 products in full precision (no TF32).
// Process-wide: the first call decides, later ones change nothing.
void ConfigureTorch(int32_t threads);

}  // namespace canopy

#endif  // CORE_OPS_DEVICE_H_
