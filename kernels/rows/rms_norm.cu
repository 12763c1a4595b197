#include <cstdint>

#include "kernels/primitives/launch.cuh"
#include "kernels/primitives/vector_io.cuh"
#include "kernels/rows/rms_norm.h"

namespace canopy::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxColumns = 32768;

// Returns the sum over the threads of a row: a warp, or the whole block.
template <int kTeam>
__device__ __forceinline__ float TeamSum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xFFFFFFFF, value, offset);
  }
  if constexpr (kTeam > 32) {
    __shared__ float warp_sums[kTeam / 32];
    if (threadIdx.x % 32 == 0) {
      warp_sums[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = 0;
#pragma unroll
    for (int warp = 0; warp < kTeam / 32; ++warp) {
      value += warp_sums[warp];
    }
  }
  return value;
}

// kTeam threads hold a row in at most kVectors vectors each, so the row is read only once.
template <typename Element, int kTeam, int kVectors, bool kAdd>
__global__ void __launch_bounds__(kThreads)
    RmsNormKernel(Element* residual, const Element* delta, const Element* weight, Element* out,
                  int32_t rows, int32_t columns, float epsilon) {
  const int32_t member = threadIdx.x % kTeam;
  const int32_t num_vectors = columns / kVector;
  // Weights can be read before earlier kernels finish.
  RawVector<Element> weights[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int32_t vector = member + i * kTeam;
    if (vector < num_vectors) {
      weights[i].Load(weight + vector * kVector);
    }
  }
  WaitForEarlierKernels();
  const int32_t row = blockIdx.x * (kThreads / kTeam) + threadIdx.x / kTeam;
  if (row >= rows) {
    return;
  }
  const int64_t begin = static_cast<int64_t>(row) * columns;
  RawVector<Element> held[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int32_t vector = member + i * kTeam;
    if (vector < num_vectors) {
      held[i].Load(residual + begin + vector * kVector);
    }
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int32_t vector = member + i * kTeam;
    if (vector >= num_vectors) {
      continue;
    }
    float values[kVector];
    held[i].Get(values);
    if constexpr (kAdd) {
      RawVector<Element> other;
      other.Load(delta + begin + vector * kVector);
      float added[kVector];
      other.Get(added);
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        values[j] += added[j];
      }
      held[i].Set(values);
      held[i].Store(residual + begin + vector * kVector);
      held[i].Get(values);
    }
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      sum += values[j] * values[j];
    }
  }
  const float factor = rsqrtf(TeamSum<kTeam>(sum) / static_cast<float>(columns) + epsilon);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int32_t vector = member + i * kTeam;
    if (vector >= num_vectors) {
      continue;
    }
    float values[kVector];
    float factors[kVector];
    held[i].Get(values);
    weights[i].Get(factors);
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      values[j] *= factor * factors[j];
    }
    held[i].Set(values);
    held[i].Store(out + begin + vector * kVector);
  }
}

template <typename Element, int kTeam, int kVectors>
cudaError_t Launch(const RmsNormParams& p, cudaStream_t stream) {
  constexpr int kRowsOfBlock = kThreads / kTeam;
  const int32_t blocks = (p.rows + kRowsOfBlock - 1) / kRowsOfBlock;
  const auto kernel = p.delta == nullptr ? RmsNormKernel<Element, kTeam, kVectors, false>
                                         : RmsNormKernel<Element, kTeam, kVectors, true>;
  return LaunchKernel(kernel, {blocks, kThreads}, stream, static_cast<Element*>(p.residual),
                      static_cast<const Element*>(p.delta), static_cast<const Element*>(p.weight),
                      static_cast<Element*>(p.out), p.rows, p.columns, p.epsilon);
}

}  // namespace

cudaError_t LaunchRmsNorm(const RmsNormParams& params, cudaStream_t stream) {
  if (params.columns < 1 || params.columns % kVector != 0 || params.columns > kMaxColumns) {
    return cudaErrorInvalidValue;
  }
  if (params.rows == 0) {
    return cudaSuccess;
  }
  return DispatchType(params.data_type, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    const int32_t num_vectors = params.columns / kVector;
    if (num_vectors <= 32 * 4) {
      return Launch<Element, 32, 4>(params, stream);
    }
    if (num_vectors <= kThreads * 2) {
      return Launch<Element, kThreads, 2>(params, stream);
    }
    return Launch<Element, kThreads, kMaxColumns / kVector / kThreads>(params, stream);
  });
}

}  // namespace canopy::kernels
