// KernelOps on the CPU for tests. Computes in double precision and rounds the results to the dtype
// of the tensors. Accepts any sizes and any dtype.
#ifndef CORE_OPS_TESTING_REFERENCE_KERNEL_OPS_H_
#define CORE_OPS_TESTING_REFERENCE_KERNEL_OPS_H_

#include "core/ops/kernel_ops_factory.h"

namespace canopy {

KernelOpsFactory ReferenceKernels();

}  // namespace canopy

#endif  // CORE_OPS_TESTING_REFERENCE_KERNEL_OPS_H_
