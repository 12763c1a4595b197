// KernelOps on a CUDA device: checked calls of the kernels in kernels/ on the current stream.
#ifndef CORE_OPS_CUDA_KERNEL_OPS_H_
#define CORE_OPS_CUDA_KERNEL_OPS_H_

#include <memory>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "core/ops/kernel_ops.h"

namespace canopy {

// `options` name the device and the compute dtype. Returns FAILED_PRECONDITION, saying what is
// missing, for a build without kernels, a device that is not CUDA or too old, a dtype other than
// bfloat16 and float16, and sizes and head shapes that the kernels do not support. Throws
// LibTorch's errors.
absl::StatusOr<std::unique_ptr<const KernelOps>> MakeCudaKernelOps(
    const KernelModel& model, const at::TensorOptions& options);

}  // namespace canopy

#endif  // CORE_OPS_CUDA_KERNEL_OPS_H_
