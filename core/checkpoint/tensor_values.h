// The numbers that a stored tensor holds, whatever its type.
#ifndef CORE_CHECKPOINT_TENSOR_VALUES_H_
#define CORE_CHECKPOINT_TENSOR_VALUES_H_

#include "absl/status/statusor.h"
#include "core/checkpoint/file_copy.h"
#include "core/checkpoint/weight_source.h"

namespace canopy {

// Returns whether weights of this type are read: F32, BF16 or F16.
bool IsFloat(DType dtype);

// Returns whether two tensors have one shape and hold the same numbers. Tensors of different types
// are compared exactly, as float32; they differ if either is of a type that IsFloat does not name.
// Errors of `check_wanted`, which is asked before each step of kStepBytes.
absl::StatusOr<bool> EqualValues(const TensorView& left, const TensorView& right,
                                 const WantedCheck& check_wanted);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_TENSOR_VALUES_H_
