// out[i] = source[indices[i]], whole rows: token embeddings, endpoint rows.
#ifndef KERNELS_ROWS_ROW_GATHER_H_
#define KERNELS_ROWS_ROW_GATHER_H_

#include <cstdint>

#include "cuda_runtime_api.h"

namespace canopy::kernels {

// Bytes are moved as they are, so any element type will do. Pointers and strides are multiples of
// 16 bytes. Every index must be a row of the source: the caller has checked them.
struct RowGatherParams {
  const void* source = nullptr;      // [any, row_bytes]
  const int32_t* indices = nullptr;  // [rows]
  void* out = nullptr;               // [rows, row_bytes], dense
  int64_t source_stride_bytes = 0;
  int32_t rows = 0;
  int32_t row_bytes = 0;  // a multiple of 16
};
// cudaErrorInvalidValue for other row_bytes. No rows: nothing to do.
cudaError_t LaunchRowGather(const RowGatherParams& params, cudaStream_t stream);

}  // namespace canopy::kernels

#endif  // KERNELS_ROWS_ROW_GATHER_H_
