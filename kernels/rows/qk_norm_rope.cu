#include <algorithm>
#include <cstdint>

#include "kernels/primitives/launch.cuh"
#include "kernels/primitives/vector_io.cuh"
#include "kernels/rows/qk_norm_rope.h"

namespace canopy::kernels {
namespace {

constexpr int kThreads = 256;
constexpr uint32_t kAllLanes = 0xFFFFFFFF;
// The number of warps that keeps a large device busy. With fewer tokens, several warps share the
// heads of a token.
constexpr int32_t kEnoughWarps = 2048;

template <typename Element>
struct Heads {
  Element* data;
  const Element* weight;
  int64_t token_stride;
  int32_t num_heads;
};

// The cosines and sines of a lane's eight pairs.
struct Rotation {
  float cos[kVector];
  float sin[kVector];
};

// Processes slice `slice` of `num_slices` of the heads; kLanes lanes hold a head. A lane holds
// eight elements of the first half of a head and their partners in the second half, so that each
// pair stays in one lane.
template <typename Element, int kLanes, bool kNorm>
__device__ __forceinline__ void NormAndTurn(const Heads<Element>& heads, int32_t token,
                                            const Rotation& rotation, float epsilon, int32_t slice,
                                            int32_t num_slices) {
  constexpr int kHeadDim = kLanes * 2 * kVector;
  constexpr int kHeadsOfWarp = 32 / kLanes;
  const int32_t lane = threadIdx.x % 32;
  const int32_t column = lane % kLanes * kVector;
  float weights[2][kVector];
  if constexpr (kNorm) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      RawVector<Element> raw;
      raw.Load(heads.weight + column + half * kHeadDim / 2);
      raw.Get(weights[half]);
    }
  }
#pragma unroll 2
  for (int32_t first = slice * kHeadsOfWarp; first < heads.num_heads;
       first += num_slices * kHeadsOfWarp) {
    const int32_t head = first + lane / kLanes;
    const bool valid = head < heads.num_heads;
    Element* data = heads.data + token * heads.token_stride +
                    static_cast<int64_t>(valid ? head : 0) * kHeadDim + column;
    RawVector<Element> raw[2];
    raw[0].Load(data);
    raw[1].Load(data + kHeadDim / 2);
    float a[kVector];
    float b[kVector];
    raw[0].Get(a);
    raw[1].Get(b);
    if constexpr (kNorm) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        sum += a[i] * a[i] + b[i] * b[i];
      }
#pragma unroll
      for (int offset = kLanes / 2; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(kAllLanes, sum, offset);
      }
      const float factor = rsqrtf(sum / kHeadDim + epsilon);
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        a[i] *= factor * weights[0][i];
        b[i] *= factor * weights[1][i];
      }
    }
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      const float x = a[i];
      const float y = b[i];
      a[i] = x * rotation.cos[i] - y * rotation.sin[i];
      b[i] = y * rotation.cos[i] + x * rotation.sin[i];
    }
    raw[0].Set(a);
    raw[1].Set(b);
    if (valid) {
      raw[0].Store(data);
      raw[1].Store(data + kHeadDim / 2);
    }
  }
}

// Uses num_slices warps per token.
template <typename Element, int kLanes, bool kNorm>
__global__ void __launch_bounds__(kThreads)
    QkNormRopeKernel(Heads<Element> q, Heads<Element> k, const int32_t* position_ids,
                     const float* inverse_frequencies, int32_t num_tokens, int32_t num_slices,
                     float epsilon) {
  WaitForEarlierKernels();
  const int32_t lane = threadIdx.x % 32;
  const int32_t warp = (blockIdx.x * kThreads + threadIdx.x) / 32;
  const int32_t token = warp / num_slices;
  const int32_t slice = warp % num_slices;
  if (token >= num_tokens) {
    return;
  }
  // Each angle is computed once per warp, then sent to the lanes that use it.
  constexpr int kAnglesOfLane = kLanes * kVector / 32;
  float cos[kAnglesOfLane];
  float sin[kAnglesOfLane];
  const auto position = static_cast<float>(position_ids[token]);
#pragma unroll
  for (int i = 0; i < kAnglesOfLane; ++i) {
    sincosf(position * inverse_frequencies[lane + 32 * i], &sin[i], &cos[i]);
  }
  Rotation rotation;
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const int32_t angle = lane % kLanes * kVector + i;
#pragma unroll
    for (int j = 0; j < kAnglesOfLane; ++j) {
      const float other_cos = __shfl_sync(kAllLanes, cos[j], angle % 32);
      const float other_sin = __shfl_sync(kAllLanes, sin[j], angle % 32);
      if (angle / 32 == j) {
        rotation.cos[i] = other_cos;
        rotation.sin[i] = other_sin;
      }
    }
  }
  NormAndTurn<Element, kLanes, kNorm>(q, token, rotation, epsilon, slice, num_slices);
  // Keys are sliced in reverse order, so that slices without queries get keys first.
  NormAndTurn<Element, kLanes, kNorm>(k, token, rotation, epsilon, num_slices - 1 - slice,
                                      num_slices);
}

template <typename Element, int kLanes>
auto KernelFor(bool norm) {
  return norm ? QkNormRopeKernel<Element, kLanes, true> : QkNormRopeKernel<Element, kLanes, false>;
}

}  // namespace

cudaError_t LaunchQkNormRope(const QkNormRopeParams& params, cudaStream_t stream) {
  const bool norm = params.q_weight != nullptr;
  if ((params.head_dim != 64 && params.head_dim != 128) || norm != (params.k_weight != nullptr)) {
    return cudaErrorInvalidValue;
  }
  if (params.num_tokens == 0) {
    return cudaSuccess;
  }
  return DispatchType(params.data_type, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    const Heads<Element> q{static_cast<Element*>(params.q),
                           static_cast<const Element*>(params.q_weight), params.q_token_stride,
                           params.num_query_heads};
    const Heads<Element> k{static_cast<Element*>(params.k),
                           static_cast<const Element*>(params.k_weight), params.k_token_stride,
                           params.num_kv_heads};
    const int32_t heads_of_warp = 32 * 2 * kVector / params.head_dim;
    const int32_t most_slices = (params.num_query_heads + heads_of_warp - 1) / heads_of_warp +
                                (params.num_kv_heads + heads_of_warp - 1) / heads_of_warp;
    const int32_t num_slices =
        std::clamp(kEnoughWarps / params.num_tokens, 1, std::max(1, most_slices));
    constexpr int kWarpsOfBlock = kThreads / 32;
    const int32_t blocks = (params.num_tokens * num_slices + kWarpsOfBlock - 1) / kWarpsOfBlock;
    const auto kernel =
        params.head_dim == 128 ? KernelFor<Element, 8>(norm) : KernelFor<Element, 4>(norm);
    return LaunchKernel(kernel, {blocks, kThreads}, stream, q, k, params.position_ids,
                        params.inverse_frequencies, params.num_tokens, num_slices, params.epsilon);
  });
}

}  // namespace canopy::kernels
