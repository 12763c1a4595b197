// Loads and stores eight elements at a time between device memory and float32 registers.
#ifndef KERNELS_PRIMITIVES_VECTOR_IO_CUH_
#define KERNELS_PRIMITIVES_VECTOR_IO_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/primitives/data_type.h"

namespace canopy::kernels {

inline constexpr int kVector = 8;

template <typename Element>
__device__ __forceinline__ void Unpack(uint32_t packed, float& low, float& high);
template <>
__device__ __forceinline__ void Unpack<__nv_bfloat16>(uint32_t packed, float& low, float& high) {
  low = __uint_as_float(packed << 16);
  high = __uint_as_float(packed & 0xFFFF0000);
}
template <>
__device__ __forceinline__ void Unpack<__half>(uint32_t packed, float& low, float& high) {
  const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&packed));
  low = pair.x;
  high = pair.y;
}

template <typename Element>
__device__ __forceinline__ uint32_t PackPair(float low, float high);
template <>
__device__ __forceinline__ uint32_t PackPair<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
template <>
__device__ __forceinline__ uint32_t PackPair<__half>(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// Eight elements in their stored form: 16 or 32 bytes.
template <typename Element>
struct RawVector {
  uint4 words;
  __device__ __forceinline__ void Load(const Element* source) {
    words = *reinterpret_cast<const uint4*>(source);
  }
  __device__ __forceinline__ void Store(Element* target) const {
    *reinterpret_cast<uint4*>(target) = words;
  }
  __device__ __forceinline__ void Get(float (&values)[kVector]) const {
    Unpack<Element>(words.x, values[0], values[1]);
    Unpack<Element>(words.y, values[2], values[3]);
    Unpack<Element>(words.z, values[4], values[5]);
    Unpack<Element>(words.w, values[6], values[7]);
  }
  __device__ __forceinline__ void Set(const float (&values)[kVector]) {
    words.x = PackPair<Element>(values[0], values[1]);
    words.y = PackPair<Element>(values[2], values[3]);
    words.z = PackPair<Element>(values[4], values[5]);
    words.w = PackPair<Element>(values[6], values[7]);
  }
};
template <>
struct RawVector<float> {
  float4 first;
  float4 second;
  __device__ __forceinline__ void Load(const float* source) {
    first = reinterpret_cast<const float4*>(source)[0];
    second = reinterpret_cast<const float4*>(source)[1];
  }
  __device__ __forceinline__ void Store(float* target) const {
    reinterpret_cast<float4*>(target)[0] = first;
    reinterpret_cast<float4*>(target)[1] = second;
  }
  __device__ __forceinline__ void Get(float (&values)[kVector]) const {
    values[0] = first.x, values[1] = first.y, values[2] = first.z, values[3] = first.w;
    values[4] = second.x, values[5] = second.y, values[6] = second.z, values[7] = second.w;
  }
  __device__ __forceinline__ void Set(const float (&values)[kVector]) {
    first = make_float4(values[0], values[1], values[2], values[3]);
    second = make_float4(values[4], values[5], values[6], values[7]);
  }
};

// Calls `visit` with a null pointer to the element type.
template <typename Visit>
cudaError_t DispatchType(DataType type, Visit visit) {
  switch (type) {
    case DataType::kBFloat16:
      return visit(static_cast<__nv_bfloat16*>(nullptr));
    case DataType::kFloat16:
      return visit(static_cast<__half*>(nullptr));
    case DataType::kFloat32:
      return visit(static_cast<float*>(nullptr));
  }
  return cudaErrorInvalidValue;
}

}  // namespace canopy::kernels

#endif  // KERNELS_PRIMITIVES_VECTOR_IO_CUH_
