// Processes queries and keys between their projection and attention: RMS norm of each head, in
// models that have it, then rotary embedding by position id.
#ifndef KERNELS_ROWS_QK_NORM_ROPE_H_
#define KERNELS_ROWS_QK_NORM_ROPE_H_

#include <cstdint>

#include "cuda_runtime_api.h"
#include "kernels/primitives/data_type.h"

namespace canopy::kernels {

// Works in place. The heads of a token are dense and consecutive. Token strides are in elements;
// they and the pointers are multiples of 16 bytes. Arithmetic is float32; results are rounded once.
struct QkNormRopeParams {
  // Inputs that are overwritten with the outputs, in the data type.
  void* q = nullptr;  // [tokens, query heads, head_dim]
  void* k = nullptr;  // [tokens, kv heads, head_dim]
  // Inputs.
  const void* q_weight = nullptr;         // [head_dim], in the data type; null = no norm
  const void* k_weight = nullptr;         // [head_dim]; null if and only if q_weight is null
  const int32_t* position_ids = nullptr;  // [tokens]
  // [head_dim / 2]; rotates (i, i + head_dim / 2) by position x inverse_frequencies[i]
  const float* inverse_frequencies = nullptr;
  int64_t q_token_stride = 0;
  int64_t k_token_stride = 0;
  // Sizes.
  int32_t num_tokens = 0;
  int32_t num_query_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;  // 64 or 128
  float epsilon = 0;
  DataType data_type = DataType::kBFloat16;
};
// Returns cudaErrorInvalidValue for an unsupported head_dim and for one weight without the other.
// Does nothing if there are no tokens.
cudaError_t LaunchQkNormRope(const QkNormRopeParams& params, cudaStream_t stream);

}  // namespace canopy::kernels

#endif  // KERNELS_ROWS_QK_NORM_ROPE_H_
