#include <cfloat>
#include <cmath>
#include <cstdint>

#include "kernels/primitives/launch.cuh"
#include "kernels/product/logit_ranks.h"

namespace canopy::kernels {
namespace {

// As for the sums of a row (logit_stats.cu): one block reads it, so many rows are in flight.
constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;

__device__ __forceinline__ int32_t SumOfWarp(int32_t count) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    count += __shfl_xor_sync(0xFFFFFFFF, count, offset);
  }
  return count;
}

// A block a target. Targets of one row follow each other, so all but the first read find the row in
// the cache.
__global__ void __launch_bounds__(kThreads) LogitRanksKernel(LogitRanksParams params) {
  WaitForEarlierKernels();
  __shared__ int32_t warps[kWarps];
  const auto target = static_cast<int32_t>(blockIdx.x);
  const float* row =
      params.logits + static_cast<int64_t>(params.target_rows[target]) * params.columns;
  const int32_t column = params.target_columns[target];
  const float logit = row[column];
  int32_t count = 0;
  bool is_finite = true;
#pragma unroll 4
  for (auto i = static_cast<int32_t>(threadIdx.x); i < params.columns; i += kThreads) {
    const float other = row[i];
    count += static_cast<int32_t>(other > logit || (other == logit && i < column));
    // Written so that NaN fails.
    is_finite = is_finite && fabsf(other) <= FLT_MAX;
  }
  count = SumOfWarp(count);
  if (threadIdx.x % 32 == 0) {
    warps[threadIdx.x / 32] = count;
  }
  // A barrier too: all of `warps` is written.
  const bool all_finite = __syncthreads_and(static_cast<int>(is_finite)) != 0;
  if (threadIdx.x < 32) {
    count = SumOfWarp(threadIdx.x < kWarps ? warps[threadIdx.x] : 0);
    if (threadIdx.x == 0) {
      params.ranks[target] = all_finite ? count + 1 : -1;
    }
  }
}

}  // namespace

cudaError_t LaunchLogitRanks(const LogitRanksParams& params, cudaStream_t stream) {
  if (params.columns < 1) {
    return cudaErrorInvalidValue;
  }
  if (params.num_targets == 0) {
    return cudaSuccess;
  }
  return LaunchKernel(LogitRanksKernel, {params.num_targets, kThreads}, stream, params);
}

}  // namespace canopy::kernels
