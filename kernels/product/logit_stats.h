// What is asked of rows of logits, read once: log-sum-exp, entropy, and the range.
#ifndef KERNELS_PRODUCT_LOGIT_STATS_H_
#define KERNELS_PRODUCT_LOGIT_STATS_H_

#include <cstdint>

#include "cuda_runtime_api.h"

namespace canopy::kernels {

// Dense float32 arrays. Sums are float32 and stabilised with the true maximum, logarithms natural.
// A row with a logit that is not finite gives log_sum_exp, entropy and a range that are not all
// finite.
struct LogitStatsParams {
  const float* logits = nullptr;  // [rows, columns]
  float inverse_temperature = 1;  // > 0
  // Outputs, [rows] each, or null.
  float* log_sum_exp = nullptr;  // of logits / temperature
  float* entropy = nullptr;      // of softmax(logits / temperature)
  float* min_logit = nullptr;    // raw
  float* max_logit = nullptr;    // raw
  int32_t rows = 0;
  int32_t columns = 0;  // > 0
};
// cudaErrorInvalidValue for no columns. No rows: nothing to do.
cudaError_t LaunchLogitStats(const LogitStatsParams& params, cudaStream_t stream);

}  // namespace canopy::kernels

#endif  // KERNELS_PRODUCT_LOGIT_STATS_H_
