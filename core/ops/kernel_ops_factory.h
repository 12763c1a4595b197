// The factory function of the fused backend's kernels. Does not include LibTorch's headers.
#ifndef CORE_OPS_KERNEL_OPS_FACTORY_H_
#define CORE_OPS_KERNEL_OPS_FACTORY_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"

namespace c10 {
struct TensorOptions;
}  // namespace c10

namespace canopy {

class KernelOps;     // core/ops/kernel_ops.h
struct KernelModel;  // core/ops/kernel_ops.h

// Makes the kernels for a model on the device and in the compute dtype of the options. Returns
// FAILED_PRECONDITION, with a reason, if the kernels do not support the model or the device. May
// throw LibTorch's errors.
using KernelOpsFactory = std::function<absl::StatusOr<std::unique_ptr<const KernelOps>>(
    const KernelModel&, const c10::TensorOptions&)>;

}  // namespace canopy

#endif  // CORE_OPS_KERNEL_OPS_FACTORY_H_
