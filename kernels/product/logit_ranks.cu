#include <cfloat>
#include <cmath>
#include <cstdint>

#include "kernels/primitives/launch.cuh"
#include "kernels/product/logit_ranks.h"

namespace canopy::kernels {
namespace {

// One block reads a row, so that many rows are in flight, as in logit_stats.cu.
constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;

__device__ __forceinline__ int32_t SumOfWarp(int32_t count) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    count += __shfl_xor_sync(0xFFFFFFFF, count, offset);
  }
  return count;
}

// Uses one block per target. Targets of the same row are consecutive, so all but the first find the
// row in the cache.
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
    // The comparison is false for NaN.
    is_finite = is_finite && fabsf(other) <= FLT_MAX;
  }
  count = SumOfWarp(count);
  if (threadIdx.x % 32 == 0) {
    warps[threadIdx.x / 32] = count;
  }
  // This is also a barrier after the writes to `warps`.
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
