// Slow, obvious tree attention on the device: the oracle of large forests, itself checked against
// the host's double-precision twin, and the plain 16-bit implementation whose error sets the
// tolerance.
#ifndef KERNELS_CHECK_ATTENTION_ORACLE_H_
#define KERNELS_CHECK_ATTENTION_ORACLE_H_

#include <cstdint>

#include "cuda_runtime_api.h"
#include "kernels/attention/tree_attention.h"

namespace canopy::kernels::check {

// Writes normal-like values of the data type, scaled, to all elements of [tokens, heads, head_dim];
// the same for equal seeds.
struct FillParams {
  void* data = nullptr;
  HeadStrides strides;
  int32_t num_tokens = 0;
  int32_t num_heads = 0;
  int32_t head_dim = 0;
  DataType data_type = DataType::kBFloat16;
  uint32_t seed = 0;
  float amplitude = 1;
};
void Fill(const FillParams& params);

struct Oracle {
  double* exact = nullptr;        // [tokens, query heads, head_dim]
  double* log_sum_exp = nullptr;  // [tokens, query heads]
  double* plain = nullptr;        // as exact: scores, probabilities and outputs rounded to 16 bits
};
// Of params' inputs; params' outputs and workspace are not touched.
void RunOracle(const TreeAttentionParams& params, const int32_t* exit, const Oracle& oracle);

struct Comparison {
  double error_squared = 0;        // |out - exact|^2
  double plain_error_squared = 0;  // |plain - exact|^2
  double exact_squared = 0;
  double lse_error = 0;  // largest, absolute
  int64_t not_finite = 0;
};
// Of params' outputs.
Comparison Compare(const TreeAttentionParams& params, const Oracle& oracle);

// How many of the first `count` 32-bit words differ.
int64_t CountDifferent(const void* a, const void* b, int64_t count);

}  // namespace canopy::kernels::check

#endif  // KERNELS_CHECK_ATTENTION_ORACLE_H_
