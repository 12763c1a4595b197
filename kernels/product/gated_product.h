// out = silu(rows x gate^T) * (rows x up^T): the first half of a gated MLP as one kernel, without
// the two products in between. Devices of compute capability 9.0.
#ifndef KERNELS_PRODUCT_GATED_PRODUCT_H_
#define KERNELS_PRODUCT_GATED_PRODUCT_H_

#include <cstdint>

#include "cuda_runtime_api.h"
#include "kernels/primitives/data_type.h"

namespace canopy::kernels {

// All arrays dense, aligned to 16 bytes; no earlier kernel of the stream may still be writing
// weight. Sums and SiLU are float32; the result is rounded once.
struct GatedProductParams {
  const void* rows = nullptr;    // [num_rows, inner]
  const void* weight = nullptr;  // [2 x columns, inner], gate first
  void* out = nullptr;           // [num_rows, columns]
  int32_t num_rows = 0;
  int32_t columns = 0;                       // a multiple of 8
  int32_t inner = 0;                         // a multiple of 8
  DataType data_type = DataType::kBFloat16;  // or kFloat16
  int32_t num_multiprocessors = 0;           // as DeviceInfo says
  int32_t tile_weights = 0;                  // 128 or 256; 0 = what is expected to be faster
};
// cudaErrorInvalidValue for other sizes, cudaErrorNotSupported for another device or type. No rows:
// nothing to do.
cudaError_t LaunchGatedProduct(const GatedProductParams& params, cudaStream_t stream);

}  // namespace canopy::kernels

#endif  // KERNELS_PRODUCT_GATED_PRODUCT_H_
