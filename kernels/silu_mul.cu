#include <algorithm>
#include <cstdint>

#include "kernels/launch.cuh"
#include "kernels/silu_mul.h"
#include "kernels/vector_io.cuh"

namespace canopy::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kVectorsOfThread = 2;

// A block takes consecutive vectors of one row.
template <typename Element>
__global__ void __launch_bounds__(kThreads)
    SiluMulKernel(const Element* gate_up, Element* out, int32_t columns, int32_t blocks_of_row) {
  WaitForEarlierKernels();
  const int32_t row = blockIdx.x / blocks_of_row;
  const int32_t block = blockIdx.x % blocks_of_row;
  const Element* gate = gate_up + static_cast<int64_t>(row) * 2 * columns;
  Element* target = out + static_cast<int64_t>(row) * columns;
  int32_t at[kVectorsOfThread];
  RawVector<Element> gates[kVectorsOfThread];
  RawVector<Element> ups[kVectorsOfThread];
#pragma unroll
  for (int i = 0; i < kVectorsOfThread; ++i) {
    at[i] =
        ((block * kVectorsOfThread + i) * static_cast<int32_t>(blockDim.x) + threadIdx.x) * kVector;
    if (at[i] >= columns) continue;
    gates[i].Load(gate + at[i]);
    ups[i].Load(gate + columns + at[i]);
  }
#pragma unroll
  for (int i = 0; i < kVectorsOfThread; ++i) {
    if (at[i] >= columns) continue;
    float g[kVector];
    float u[kVector];
    gates[i].Get(g);
    ups[i].Get(u);
#pragma unroll
    for (int j = 0; j < kVector; ++j) g[j] = g[j] / (1.0f + __expf(-g[j])) * u[j];
    gates[i].Set(g);
    gates[i].Store(target + at[i]);
  }
}

}  // namespace

cudaError_t LaunchSiluMul(const SiluMulParams& params, cudaStream_t stream) {
  if (params.columns < 1 || params.columns % kVector != 0) return cudaErrorInvalidValue;
  if (params.rows == 0) return cudaSuccess;
  // Few idle threads at a row's end: the block is cut to the row where that is short.
  const int32_t vectors = params.columns / kVector;
  const int32_t of_thread = (vectors + kVectorsOfThread - 1) / kVectorsOfThread;
  const int32_t blocks_of_row = (of_thread + kThreads - 1) / kThreads;
  const int32_t threads = ((of_thread + blocks_of_row - 1) / blocks_of_row + 31) / 32 * 32;
  const int64_t blocks = int64_t{params.rows} * blocks_of_row;
  if (blocks > INT32_MAX) return cudaErrorInvalidValue;
  return DispatchType(params.data_type, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    return LaunchKernel(SiluMulKernel<Element>, {static_cast<int32_t>(blocks), threads}, stream,
                        static_cast<const Element*>(params.gate_up),
                        static_cast<Element*>(params.out), params.columns, blocks_of_row);
  });
}

}  // namespace canopy::kernels
