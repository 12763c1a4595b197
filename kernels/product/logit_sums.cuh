// What is known of a set of logits: sums that can be merged, and what is made of them.
#ifndef KERNELS_PRODUCT_LOGIT_SUMS_CUH_
#define KERNELS_PRODUCT_LOGIT_SUMS_CUH_

#include <cfloat>
#include <cmath>
#include <cstdint>

namespace canopy::kernels {

// Of the logits seen so far, scaled by the inverse temperature: a maximum that sums refer to, the
// sum of e^(x - max), and that of e^(x - max) (x - max). Smallest and largest are raw.
struct LogitSums {
  float max = -FLT_MAX;
  float sum = 0;
  float weighted = 0;
  float smallest = INFINITY;
  float largest = -INFINITY;
};

// Sums that refer to another maximum, none smaller than their own.
__device__ __forceinline__ void MoveTo(float max, LogitSums& sums) {
  const float shift = sums.max - max;
  const float factor = __expf(shift);
  // 0 x -inf where nothing was seen yet.
  sums.weighted = sums.sum == 0 ? 0 : factor * (sums.weighted + shift * sums.sum);
  sums.sum *= factor;
  sums.max = max;
}

__device__ __forceinline__ void Merge(const LogitSums& other, LogitSums& sums) {
  sums.smallest = fminf(sums.smallest, other.smallest);
  sums.largest = fmaxf(sums.largest, other.largest);
  const float max = fmaxf(sums.max, other.max);
  LogitSums moved = other;
  MoveTo(max, moved);
  MoveTo(max, sums);
  sums.sum += moved.sum;
  sums.weighted += moved.weighted;
}

__device__ __forceinline__ LogitSums OfLane(const LogitSums& sums, int offset) {
  LogitSums other;
  other.max = __shfl_xor_sync(0xFFFFFFFF, sums.max, offset);
  other.sum = __shfl_xor_sync(0xFFFFFFFF, sums.sum, offset);
  other.weighted = __shfl_xor_sync(0xFFFFFFFF, sums.weighted, offset);
  other.smallest = __shfl_xor_sync(0xFFFFFFFF, sums.smallest, offset);
  other.largest = __shfl_xor_sync(0xFFFFFFFF, sums.largest, offset);
  return other;
}

// Where results go, [rows] each, or null.
struct LogitOutputs {
  float* log_sum_exp;
  float* entropy;
  float* min_logit;
  float* max_logit;

  __device__ __forceinline__ void Write(int32_t row, const LogitSums& sums) const {
    // A NaN among the logits is in the sum alone: minimum and maximum pass it over.
    const bool is_number = sums.sum == sums.sum;
    const float log_sum = logf(sums.sum);
    if (log_sum_exp != nullptr) {
      log_sum_exp[row] = sums.max + log_sum;
    }
    if (entropy != nullptr) {
      entropy[row] = log_sum - sums.weighted / sums.sum;
    }
    if (min_logit != nullptr) {
      min_logit[row] = is_number ? sums.smallest : NAN;
    }
    if (max_logit != nullptr) {
      max_logit[row] = is_number ? sums.largest : NAN;
    }
  }
};

}  // namespace canopy::kernels

#endif  // KERNELS_PRODUCT_LOGIT_SUMS_CUH_
