// Computes out = silu(rows x gate^T) * (rows x up^T), the first half of a gated MLP, in one kernel
// without storing the two products. Needs compute capability 9.0.
#ifndef KERNELS_PRODUCT_GATED_PRODUCT_H_
#define KERNELS_PRODUCT_GATED_PRODUCT_H_

#include <cstdint>

#include "cuda_runtime_api.h"
#include "kernels/primitives/data_type.h"

namespace canopy::kernels {

// All arrays are dense and aligned to 16 bytes. No earlier kernel of the stream may still be
// writing `weight`. Sums and SiLU are float32; the result is rounded once.
struct GatedProductParams {
  const void* rows = nullptr;    // [num_rows, inner]
  const void* weight = nullptr;  // [2 x columns, inner], gate first
  void* out = nullptr;           // [num_rows, columns]
  int32_t num_rows = 0;
  int32_t columns = 0;                       // a multiple of 8
  int32_t inner = 0;                         // a multiple of 8
  DataType data_type = DataType::kBFloat16;  // or kFloat16
  int32_t num_multiprocessors = 0;           // from DeviceInfo
  int32_t tile_weights = 0;                  // 128 or 256; 0 = choose the one expected to be faster
};
// Returns cudaErrorInvalidValue for invalid sizes and cudaErrorNotSupported for an unsupported
// device or type. Does nothing if there are no rows.
cudaError_t LaunchGatedProduct(const GatedProductParams& params, cudaStream_t stream);

}  // namespace canopy::kernels

#endif  // KERNELS_PRODUCT_GATED_PRODUCT_H_
