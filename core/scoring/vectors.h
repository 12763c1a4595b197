// Endpoint vectors in the element type that a caller asked for, and which rows are fit to send.
#ifndef CORE_SCORING_VECTORS_H_
#define CORE_SCORING_VECTORS_H_

#include "ATen/core/Tensor.h"

namespace canopy {

// hidden [paths, hidden size] in any float type -> the same rows in `type`, contiguous, on the same
// device. With `normalize`, rows have L2 norm 1, computed in float32 before the last rounding,
// however small or large their elements; a row of zeros has no direction and becomes NaN. Throws
// LibTorch's errors.
at::Tensor EndpointVectors(const at::Tensor& hidden, at::ScalarType type, bool normalize);

// rows [paths, n] in any float type -> [paths] bool: every element is finite. Throws LibTorch's
// errors.
at::Tensor FiniteRows(const at::Tensor& rows);

}  // namespace canopy

#endif  // CORE_SCORING_VECTORS_H_
