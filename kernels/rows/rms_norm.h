// Computes out = x / sqrt(mean(x^2) + epsilon) * weight for each row, where x = residual (+ delta).
#ifndef KERNELS_ROWS_RMS_NORM_H_
#define KERNELS_ROWS_RMS_NORM_H_

#include <cstdint>

#include "cuda_runtime_api.h"
#include "kernels/primitives/data_type.h"

namespace canopy::kernels {

// All arrays are dense, of one data type, and aligned to 16 bytes. No earlier kernel of the stream
// may still be writing `weight`. Sums are float32; the result is rounded once.
struct RmsNormParams {
  // Inputs.
  void* residual = nullptr;  // [rows, columns]; with delta, overwritten by the rounded sum of both
  const void* delta = nullptr;   // [rows, columns], or null
  const void* weight = nullptr;  // [columns]
  // Output.
  void* out = nullptr;  // [rows, columns]; may be the same as delta
  // Sizes.
  int32_t rows = 0;
  int32_t columns = 0;  // a multiple of 8, at most 32768
  float epsilon = 0;
  DataType data_type = DataType::kBFloat16;
};
// Returns cudaErrorInvalidValue if `columns` is outside its limits. Does nothing if there are no
// rows.
cudaError_t LaunchRmsNorm(const RmsNormParams& params, cudaStream_t stream);

}  // namespace canopy::kernels

#endif  // KERNELS_ROWS_RMS_NORM_H_
