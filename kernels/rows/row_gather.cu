#include <cstdint>

#include "kernels/primitives/launch.cuh"
#include "kernels/rows/row_gather.h"

namespace canopy::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kUnit = 16;  // bytes

// Uses one warp per row.
__global__ void __launch_bounds__(kThreads) RowGatherKernel(const RowGatherParams p) {
  WaitForEarlierKernels();
  const int32_t lane = threadIdx.x % 32;
  const int32_t row = (blockIdx.x * kThreads + threadIdx.x) / 32;
  if (row >= p.rows) {
    return;
  }
  const auto* source = reinterpret_cast<const uint4*>(static_cast<const char*>(p.source) +
                                                      p.indices[row] * p.source_stride_bytes);
  auto* target =
      reinterpret_cast<uint4*>(static_cast<char*>(p.out) + static_cast<int64_t>(row) * p.row_bytes);
  const int32_t units = p.row_bytes / kUnit;
#pragma unroll 4
  for (int32_t unit = lane; unit < units; unit += 32) {
    target[unit] = source[unit];
  }
}

}  // namespace

cudaError_t LaunchRowGather(const RowGatherParams& params, cudaStream_t stream) {
  if (params.row_bytes < 1 || params.row_bytes % kUnit != 0 ||
      params.source_stride_bytes % kUnit != 0) {
    return cudaErrorInvalidValue;
  }
  if (params.rows == 0) {
    return cudaSuccess;
  }
  constexpr int kRowsOfBlock = kThreads / 32;
  const int32_t blocks = (params.rows + kRowsOfBlock - 1) / kRowsOfBlock;
  return LaunchKernel(RowGatherKernel, {blocks, kThreads}, stream, params);
}

}  // namespace canopy::kernels
