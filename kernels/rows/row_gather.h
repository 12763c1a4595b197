// Computes out[i] = source[indices[i]] for whole rows, such as token embeddings and endpoint rows.
#ifndef KERNELS_ROWS_ROW_GATHER_H_
#define KERNELS_ROWS_ROW_GATHER_H_

#include <cstdint>

#include "cuda_runtime_api.h"

namespace canopy::kernels {

// Rows are copied as bytes, so any element type is supported. Pointers and strides are multiples of
// 16 bytes. The caller must have checked that every index is a row of the source.
struct RowGatherParams {
  const void* source = nullptr;      // [any, row_bytes]
  const int32_t* indices = nullptr;  // [rows]
  void* out = nullptr;               // [rows, row_bytes], dense
  int64_t source_stride_bytes = 0;
  int32_t rows = 0;
  int32_t row_bytes = 0;  // a multiple of 16
};
// Returns cudaErrorInvalidValue for an invalid row_bytes or stride. Does nothing if there are no
// rows.
cudaError_t LaunchRowGather(const RowGatherParams& params, cudaStream_t stream);

}  // namespace canopy::kernels

#endif  // KERNELS_ROWS_ROW_GATHER_H_
