// Converts endpoint vectors to the requested element type, and finds the rows that are finite.
#ifndef CORE_SCORING_VECTORS_H_
#define CORE_SCORING_VECTORS_H_

#include "ATen/core/Tensor.h"

namespace canopy {

// hidden [paths, hidden size] in any float dtype -> the same rows in `type`, contiguous, on the
// same device. With `normalize`, rows have L2 norm 1. The norm is computed in float32 before the
// final rounding and does not overflow or underflow for finite elements. A row of zeros becomes
// NaN, because it has no direction. Throws LibTorch's errors.
at::Tensor EndpointVectors(const at::Tensor& hidden, at::ScalarType type, bool normalize);

// rows [paths, n] in any float dtype -> [paths] bool, true if every element of the row is finite.
// Throws LibTorch's errors.
at::Tensor FiniteRows(const at::Tensor& rows);

}  // namespace canopy

#endif  // CORE_SCORING_VECTORS_H_
