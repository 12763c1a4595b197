// Compares the values of stored tensors of any float type.
#ifndef CORE_CHECKPOINT_TENSOR_VALUES_H_
#define CORE_CHECKPOINT_TENSOR_VALUES_H_

#include "absl/status/statusor.h"
#include "core/checkpoint/file_copy.h"
#include "core/checkpoint/weight_source.h"

namespace canopy {

// Returns true for the types of weights that can be read: F32, BF16 and F16.
bool IsFloat(DType dtype);

// Returns true if two tensors have the same shape and the same values. Tensors of different types
// are compared exactly, as float32; they count as different if IsFloat is false for one of the
// types. Calls `check_wanted` before each step of kStepBytes and returns its error.
absl::StatusOr<bool> EqualValues(const TensorView& left, const TensorView& right,
                                 const WantedCheck& check_wanted);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_TENSOR_VALUES_H_
