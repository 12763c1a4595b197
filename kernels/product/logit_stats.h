// Computes log-sum-exp, entropy and range of rows of logits, which are read once.
#ifndef KERNELS_PRODUCT_LOGIT_STATS_H_
#define KERNELS_PRODUCT_LOGIT_STATS_H_

#include <cstdint>

#include "cuda_runtime_api.h"

namespace canopy::kernels {

// All arrays are dense float32. Sums are float32 and stabilized with the true maximum; logarithms
// are natural. If a row has a non-finite logit, its log_sum_exp, entropy and range are not all
// finite.
struct LogitStatsParams {
  const float* logits = nullptr;  // [rows, columns]
  float inverse_temperature = 1;  // > 0
  // Outputs: [rows], or null.
  float* log_sum_exp = nullptr;  // log-sum-exp of logits / temperature
  float* entropy = nullptr;      // entropy of softmax(logits / temperature)
  float* min_logit = nullptr;    // raw logit
  float* max_logit = nullptr;    // raw logit
  int32_t rows = 0;
  int32_t columns = 0;  // > 0
};
// Returns cudaErrorInvalidValue if there are no columns. Does nothing if there are no rows.
cudaError_t LaunchLogitStats(const LogitStatsParams& params, cudaStream_t stream);

}  // namespace canopy::kernels

#endif  // KERNELS_PRODUCT_LOGIT_STATS_H_
