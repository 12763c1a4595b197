// KernelOps on the CPU in double precision: the kernels' twins, which round their results to the
// type of the tensors, for tests. Any sizes, any type.
#ifndef CORE_OPS_TESTING_REFERENCE_KERNEL_OPS_H_
#define CORE_OPS_TESTING_REFERENCE_KERNEL_OPS_H_

#include "core/ops/kernel_ops_factory.h"

namespace canopy {

KernelOpsFactory ReferenceKernels();

}  // namespace canopy

#endif  // CORE_OPS_TESTING_REFERENCE_KERNEL_OPS_H_
