#include <algorithm>
#include <cstdint>

#include "kernels/primitives/launch.cuh"
#include "kernels/primitives/vector_io.cuh"
#include "kernels/rows/silu_mul.h"

namespace canopy::kernels {
namespace {

constexpr int kThreads = 128;

// Each thread processes one vector; a block never spans two rows.
template <typename Element>
__global__ void __launch_bounds__(kThreads)
    SiluMulKernel(const Element* gate_up, Element* out, int32_t columns, int32_t blocks_of_row) {
  WaitForEarlierKernels();
  const int32_t row = blockIdx.x / blocks_of_row;
  const auto threads = static_cast<int32_t>(blockDim.x);
  const int32_t column =
      (blockIdx.x % blocks_of_row * threads + static_cast<int32_t>(threadIdx.x)) * kVector;
  if (column >= columns) {
    return;
  }
  const Element* gate = gate_up + static_cast<int64_t>(row) * 2 * columns + column;
  RawVector<Element> gates;
  RawVector<Element> ups;
  gates.Load(gate);
  ups.Load(gate + columns);
  float g[kVector];
  float u[kVector];
  gates.Get(g);
  ups.Get(u);
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    g[i] = __fdividef(g[i], 1.0f + __expf(-g[i])) * u[i];
  }
  gates.Set(g);
  gates.Store(out + static_cast<int64_t>(row) * columns + column);
}

}  // namespace

cudaError_t LaunchSiluMul(const SiluMulParams& params, cudaStream_t stream) {
  if (params.columns < 1 || params.columns % kVector != 0) {
    return cudaErrorInvalidValue;
  }
  if (params.rows == 0) {
    return cudaSuccess;
  }
  // The blocks of a row have the same size, chosen so that few threads are idle at the end of the
  // row.
  const int32_t vectors = params.columns / kVector;
  const int32_t blocks_of_row = (vectors + kThreads - 1) / kThreads;
  const int32_t threads = ((vectors + blocks_of_row - 1) / blocks_of_row + 31) / 32 * 32;
  const int64_t blocks = int64_t{params.rows} * blocks_of_row;
  if (blocks > INT32_MAX) {
    return cudaErrorInvalidValue;
  }
  return DispatchType(params.data_type, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    return LaunchKernel(SiluMulKernel<Element>, {static_cast<int32_t>(blocks), threads}, stream,
                        static_cast<const Element*>(params.gate_up),
                        static_cast<Element*>(params.out), params.columns, blocks_of_row);
  });
}

}  // namespace canopy::kernels
