// Mergeable partial sums over logits, and the results that are computed from them.
#ifndef KERNELS_PRODUCT_LOGIT_SUMS_CUH_
#define KERNELS_PRODUCT_LOGIT_SUMS_CUH_

#include <cfloat>
#include <cmath>
#include <cstdint>

namespace canopy::kernels {

// The sums over the logits read so far. `sum` is that of e^(x - max) and `weighted` that of e^(x -
// max) (x - max), where x is the logit times the inverse temperature and `max` is the largest x.
// `smallest` and `largest` are raw logits.
struct LogitSums {
  float max = -FLT_MAX;
  float sum = 0;
  float weighted = 0;
  float smallest = INFINITY;
  float largest = -INFINITY;
};

// Rescales the sums to refer to another maximum, which must not be smaller.
__device__ __forceinline__ void MoveTo(float max, LogitSums& sums) {
  const float shift = sums.max - max;
  const float factor = __expf(shift);
  // Avoids 0 x -inf if no logit was read yet.
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

// The output arrays, each [rows] or null.
struct LogitOutputs {
  float* log_sum_exp;
  float* entropy;
  float* min_logit;
  float* max_logit;

  __device__ __forceinline__ void Write(int32_t row, const LogitSums& sums) const {
    // A NaN among the logits is only visible in the sum, because minimum and maximum ignore it.
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
