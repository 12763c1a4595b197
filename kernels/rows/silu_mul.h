// Computes out = silu(gate) * up, the middle step of a gated MLP.
#ifndef KERNELS_ROWS_SILU_MUL_H_
#define KERNELS_ROWS_SILU_MUL_H_

#include <cstdint>

#include "cuda_runtime_api.h"
#include "kernels/primitives/data_type.h"

namespace canopy::kernels {

// All arrays are dense and aligned to 16 bytes. Arithmetic is float32; the result is rounded once.
struct SiluMulParams {
  const void* gate_up = nullptr;  // [rows, 2 x columns], gate first
  void* out = nullptr;            // [rows, columns]
  int32_t rows = 0;
  int32_t columns = 0;  // a multiple of 8
  DataType data_type = DataType::kBFloat16;
};
// Returns cudaErrorInvalidValue for an invalid number of columns. Does nothing if there are no
// rows.
cudaError_t LaunchSiluMul(const SiluMulParams& params, cudaStream_t stream);

}  // namespace canopy::kernels

#endif  // KERNELS_ROWS_SILU_MUL_H_
