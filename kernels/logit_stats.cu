#include <cfloat>
#include <cmath>
#include <cstdint>

#include "kernels/launch.cuh"
#include "kernels/logit_stats.h"

namespace canopy::kernels {
namespace {

// A row of a vocabulary is hundreds of KB: one block reads it, so many rows are in flight.
constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kUnroll = 4;  // loads of 16 bytes in flight in each thread

// Of the logits seen so far, scaled by the inverse temperature: a maximum that sums refer to, the
// sum of e^(x - max), and that of e^(x - max) (x - max). Smallest and largest are raw.
struct Stats {
  float max = -FLT_MAX;
  float sum = 0;
  float weighted = 0;
  float smallest = INFINITY;
  float largest = -INFINITY;
};

// Sums that refer to another maximum, none smaller than their own.
__device__ __forceinline__ void MoveTo(float max, Stats& stats) {
  const float shift = stats.max - max;
  const float factor = __expf(shift);
  // 0 x -inf where nothing was seen yet.
  stats.weighted = stats.sum == 0 ? 0 : factor * (stats.weighted + shift * stats.sum);
  stats.sum *= factor;
  stats.max = max;
}

template <bool kEntropy, int kCount>
__device__ __forceinline__ void Add(const float (&logits)[kCount], float inverse_temperature,
                                    Stats& stats) {
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

__device__ __forceinline__ void Merge(const Stats& other, Stats& stats) {
  stats.smallest = fminf(stats.smallest, other.smallest);
  stats.largest = fmaxf(stats.largest, other.largest);
  const float max = fmaxf(stats.max, other.max);
  Stats moved = other;
  MoveTo(max, moved);
  MoveTo(max, stats);
  stats.sum += moved.sum;
  stats.weighted += moved.weighted;
}

__device__ __forceinline__ Stats OfLane(const Stats& stats, int offset) {
  Stats other;
  other.max = __shfl_xor_sync(0xFFFFFFFF, stats.max, offset);
  other.sum = __shfl_xor_sync(0xFFFFFFFF, stats.sum, offset);
  other.weighted = __shfl_xor_sync(0xFFFFFFFF, stats.weighted, offset);
  other.smallest = __shfl_xor_sync(0xFFFFFFFF, stats.smallest, offset);
  other.largest = __shfl_xor_sync(0xFFFFFFFF, stats.largest, offset);
  return other;
}

// Whole in the first warp.
__device__ __forceinline__ Stats OfBlock(Stats stats) {
  __shared__ Stats warps[kWarps];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    Merge(OfLane(stats, offset), stats);
  }
  if (threadIdx.x % 32 == 0) {
    warps[threadIdx.x / 32] = stats;
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    stats = threadIdx.x < kWarps ? warps[threadIdx.x] : Stats();
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      Merge(OfLane(stats, offset), stats);
    }
  }
  return stats;
}

// This thread's part of a row: vectors of four, and the few logits before and after them, for a row
// begins at 16 bytes only where the columns are a multiple of four.
template <bool kEntropy>
__device__ __forceinline__ Stats ReadRow(const float* row, int32_t columns,
                                         float inverse_temperature) {
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const auto misaligned = static_cast<int32_t>(reinterpret_cast<uintptr_t>(row) / 4 % 4);
  const int32_t head = min((4 - misaligned) % 4, columns);
  const int32_t num_vectors = (columns - head) / 4;
  const int32_t tail = head + 4 * num_vectors;
  const auto* vectors = reinterpret_cast<const float4*>(row + head);
  Stats stats;
  int32_t vector = thread;
  for (; vector + (kUnroll - 1) * kThreads < num_vectors; vector += kUnroll * kThreads) {
    float4 loaded[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      // Read once: what it would push out of the caches is worth more.
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
  const Stats stats =
      OfBlock(ReadRow<kEntropy>(params.logits + static_cast<int64_t>(row) * params.columns,
                                params.columns, params.inverse_temperature));
  if (threadIdx.x != 0) {
    return;
  }
  // A NaN among the logits is in the sum alone: minimum and maximum pass it over.
  const bool is_number = stats.sum == stats.sum;
  const float log_sum = logf(stats.sum);
  if (params.log_sum_exp != nullptr) {
    params.log_sum_exp[row] = stats.max + log_sum;
  }
  if (params.entropy != nullptr) {
    params.entropy[row] = log_sum - stats.weighted / stats.sum;
  }
  if (params.min_logit != nullptr) {
    params.min_logit[row] = is_number ? stats.smallest : NAN;
  }
  if (params.max_logit != nullptr) {
    params.max_logit[row] = is_number ? stats.largest : NAN;
  }
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
