// Computes queries, keys and values in one kernel: out = rows x weight^T + bias. Each query and key
// head is then divided by its root mean square and rotated by the rotary embedding. Needs compute
// capability 9.0.
#ifndef KERNELS_PRODUCT_HEAD_PRODUCT_H_
#define KERNELS_PRODUCT_HEAD_PRODUCT_H_

#include <cstdint>

#include "cuda_runtime_api.h"
#include "kernels/primitives/data_type.h"

namespace canopy::kernels {

// All arrays are dense and aligned to 16 bytes. No earlier kernel of the stream may still be
// writing `weight`. All arithmetic is float32; the result is rounded once. `heads` = query heads +
// 2 x kv heads, in the order queries, keys, values.
struct HeadProductParams {
  const void* rows = nullptr;             // [num_rows, inner]
  const void* weight = nullptr;           // [heads x head_dim, inner]
  const void* bias = nullptr;             // [heads x head_dim], or null
  const void* q_weight = nullptr;         // [head_dim], or null: no norm of heads
  const void* k_weight = nullptr;         // [head_dim]; null if and only if q_weight is null
  const int32_t* position_ids = nullptr;  // [num_rows], 0 .. 2^20
  // [head_dim / 2]; rotates (i, i + head_dim / 2) by position x inverse_frequencies[i]
  const float* inverse_frequencies = nullptr;
  void* out = nullptr;  // [num_rows, heads x head_dim]
  int32_t num_rows = 0;
  int32_t inner = 0;  // a multiple of 8
  int32_t num_query_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;  // 64 or 128
  float epsilon = 0;
  DataType data_type = DataType::kBFloat16;  // or kFloat16
  int32_t num_multiprocessors = 0;           // from DeviceInfo
  int32_t tile_weights = 0;                  // 128 or 256; 0 = choose the one expected to be faster
};
// Returns cudaErrorInvalidValue for invalid sizes and cudaErrorNotSupported for an unsupported
// device or type. Does nothing if there are no rows.
cudaError_t LaunchHeadProduct(const HeadProductParams& params, cudaStream_t stream);

}  // namespace canopy::kernels

#endif  // KERNELS_PRODUCT_HEAD_PRODUCT_H_
