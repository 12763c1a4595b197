// KernelOps on the CPU in double precision: the kernels' twins on float32 tensors, for tests.
#ifndef CORE_OPS_REFERENCE_KERNEL_OPS_H_
#define CORE_OPS_REFERENCE_KERNEL_OPS_H_

#include <memory>

#include "core/ops/kernel_ops.h"

namespace canopy {

std::unique_ptr<const KernelOps> MakeReferenceKernelOps(const KernelModel& model);

}  // namespace canopy

#endif  // CORE_OPS_REFERENCE_KERNEL_OPS_H_
