#include <cmath>
#include <cstdint>

#include "kernels/primitives/launch.cuh"
#include "kernels/product/logit_stats.h"
#include "kernels/product/logit_sums.cuh"

namespace canopy::kernels {
namespace {

// A row of logits has hundreds of KB. One block reads a row, so that many rows are in flight.
constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kUnroll = 4;  // 16-byte loads in flight per thread

template <bool kEntropy, int kCount>
__device__ __forceinline__ void Add(const float (&logits)[kCount], float inverse_temperature,
                                    LogitSums& stats) {
  float low = logits[0];
  float high = logits[0];
#pragma unroll
  for (int i = 1; i < kCount; ++i) {
    low = fminf(low, logits[i]);
    high = fmaxf(high, logits[i]);
  }
  stats.smallest = fminf(stats.smallest, low);
  stats.largest = fmaxf(stats.largest, high);
  const float max = high * inverse_temperature;
  if (max > stats.max) {
    MoveTo(max, stats);
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float x = fmaf(logits[i], inverse_temperature, -stats.max);
    const float e = __expf(x);
    stats.sum += e;
    if constexpr (kEntropy) {
      stats.weighted = fmaf(e, x, stats.weighted);
    }
  }
}

// Reduces over a block. Only the first warp gets the complete result.
__device__ __forceinline__ LogitSums OfBlock(LogitSums stats) {
  __shared__ LogitSums warps[kWarps];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    Merge(OfLane(stats, offset), stats);
  }
  if (threadIdx.x % 32 == 0) {
    warps[threadIdx.x / 32] = stats;
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    stats = threadIdx.x < kWarps ? warps[threadIdx.x] : LogitSums();
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      Merge(OfLane(stats, offset), stats);
    }
  }
  return stats;
}

// Reads this thread's part of a row: vectors of four logits, and the few logits before and after
// them. Rows start at multiples of 16 bytes only if the number of columns is a multiple of four.
template <bool kEntropy>
__device__ __forceinline__ LogitSums ReadRow(const float* row, int32_t columns,
                                             float inverse_temperature) {
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const auto misaligned = static_cast<int32_t>(reinterpret_cast<uintptr_t>(row) / 4 % 4);
  const int32_t head = min((4 - misaligned) % 4, columns);
  const int32_t num_vectors = (columns - head) / 4;
  const int32_t tail = head + 4 * num_vectors;
  const auto* vectors = reinterpret_cast<const float4*>(row + head);
  LogitSums stats;
  int32_t vector = thread;
  for (; vector + (kUnroll - 1) * kThreads < num_vectors; vector += kUnroll * kThreads) {
    float4 loaded[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      // The load is a streaming load, because the row is read once and should not evict other data.
      loaded[i] = __ldcs(vectors + vector + i * kThreads);
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      Add<kEntropy>({loaded[i].x, loaded[i].y, loaded[i].z, loaded[i].w}, inverse_temperature,
                    stats);
    }
  }
  for (; vector < num_vectors; vector += kThreads) {
    const float4 last = __ldcs(vectors + vector);
    Add<kEntropy>({last.x, last.y, last.z, last.w}, inverse_temperature, stats);
  }
  if (thread < head) {
    Add<kEntropy>({row[thread]}, inverse_temperature, stats);
  }
  if (thread < columns - tail) {
    Add<kEntropy>({row[tail + thread]}, inverse_temperature, stats);
  }
  return stats;
}

template <bool kEntropy>
__global__ void __launch_bounds__(kThreads) LogitStatsKernel(LogitStatsParams params) {
  WaitForEarlierKernels();
  const auto row = static_cast<int32_t>(blockIdx.x);
  const LogitSums stats =
      OfBlock(ReadRow<kEntropy>(params.logits + static_cast<int64_t>(row) * params.columns,
                                params.columns, params.inverse_temperature));
  if (threadIdx.x != 0) {
    return;
  }
  const LogitOutputs outputs = {params.log_sum_exp, params.entropy, params.min_logit,
                                params.max_logit};
  outputs.Write(row, stats);
}

}  // namespace

cudaError_t LaunchLogitStats(const LogitStatsParams& params, cudaStream_t stream) {
  if (params.columns < 1) {
    return cudaErrorInvalidValue;
  }
  if (params.rows == 0) {
    return cudaSuccess;
  }
  const auto kernel = params.entropy != nullptr ? LogitStatsKernel<true> : LogitStatsKernel<false>;
  return LaunchKernel(kernel, {params.rows, kThreads}, stream, params);
}

}  // namespace canopy::kernels
