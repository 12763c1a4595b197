// Slow and simple tree attention on the device. It computes exact results of large forests, which
// are themselves checked against the double-precision reference on the host. It also runs the plain
// 16-bit implementation whose error determines the tolerance.
#ifndef KERNELS_CHECK_ATTENTION_ORACLE_H_
#define KERNELS_CHECK_ATTENTION_ORACLE_H_

#include <cstdint>

#include "cuda_runtime_api.h"
#include "kernels/attention/tree_attention.h"

namespace canopy::kernels::check {

// Writes approximately normal values times `amplitude` to all elements of [tokens, heads,
// head_dim]. Equal seeds give equal values.
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
  double* plain = nullptr;  // shape as exact; scores, probabilities and outputs rounded to 16 bits
};
// Computes the results for params' inputs. Does not use params' outputs and workspace.
void RunOracle(const TreeAttentionParams& params, const int32_t* exit, const Oracle& oracle);

struct Comparison {
  double error_squared = 0;        // |out - exact|^2
  double plain_error_squared = 0;  // |plain - exact|^2
  double exact_squared = 0;
  double lse_error = 0;  // largest absolute error
  int64_t not_finite = 0;
};
// Compares params' outputs with the oracle's.
Comparison Compare(const TreeAttentionParams& params, const Oracle& oracle);

// Returns how many of the first `count` 32-bit words differ.
int64_t CountDifferent(const void* a, const void* b, int64_t count);

}  // namespace canopy::kernels::check

#endif  // KERNELS_CHECK_ATTENTION_ORACLE_H_
