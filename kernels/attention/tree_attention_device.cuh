// Device code shared by all forms of tree attention: pointers into the workspace, and conversions
// of the element types.
#ifndef KERNELS_ATTENTION_TREE_ATTENTION_DEVICE_CUH_
#define KERNELS_ATTENTION_TREE_ATTENTION_DEVICE_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/attention/tree_attention.h"

namespace canopy::kernels {

// Pointers to the workspace's parts, which tree_attention_config.h describes.
struct VisibilityLists {
  int32_t* counters;
  int32_t* exits;
  int2* chunk_bounds;  // x = smallest, y = largest exit index
  int32_t* prefix_max;
  int2* headers;  // x = steps, y = masked steps
  int32_t* order;
  int32_t* lists;
  int32_t num_chunks;
  int32_t num_query_tiles;
  int32_t list_capacity;
};

inline VisibilityLists ListsOf(void* workspace, const TreeAttentionShape& shape,
                               TreeAttentionInstance instance) {
  const TreeAttentionWorkspace space = LayOutWorkspace(shape, instance);
  char* base = static_cast<char*>(workspace);
  VisibilityLists lists;
  lists.counters = reinterpret_cast<int32_t*>(base + space.counters);
  lists.exits = reinterpret_cast<int32_t*>(base + space.exits);
  lists.chunk_bounds = reinterpret_cast<int2*>(base + space.chunk_bounds);
  lists.prefix_max = reinterpret_cast<int32_t*>(base + space.prefix_max);
  lists.headers = reinterpret_cast<int2*>(base + space.headers);
  lists.order = reinterpret_cast<int32_t*>(base + space.order);
  lists.lists = reinterpret_cast<int32_t*>(base + space.lists);
  lists.num_chunks = space.num_chunks;
  lists.num_query_tiles = space.num_query_tiles;
  lists.list_capacity = space.list_capacity;
  return lists;
}

// The chunks [first, end) that hold a query tile's own tokens.
struct OwnChunks {
  int32_t first;
  int32_t end;
};
__device__ __forceinline__ OwnChunks OwnChunksOf(int32_t tile, int32_t tile_tokens,
                                                 int32_t num_tokens) {
  const int32_t begin = tile * tile_tokens;
  const int32_t end = min(begin + tile_tokens, num_tokens);
  return {begin / kKeyChunkTokens, (end + kKeyChunkTokens - 1) / kKeyChunkTokens};
}

// Rounds two float32 values into one register, with `low` in the lower half.
template <typename Element>
__device__ __forceinline__ uint32_t Pack(float low, float high);
template <>
__device__ __forceinline__ uint32_t Pack<__nv_bfloat16>(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
template <>
__device__ __forceinline__ uint32_t Pack<__half>(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// Returns 2^x; -inf gives 0.
__device__ __forceinline__ float Exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// These reduce over the four lanes that hold one row of an accumulator.
__device__ __forceinline__ float RowMax(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFF, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xFFFFFFFF, value, 2));
}
__device__ __forceinline__ float RowSum(float value) {
  value += __shfl_xor_sync(0xFFFFFFFF, value, 1);
  return value + __shfl_xor_sync(0xFFFFFFFF, value, 2);
}

inline constexpr float kLog2E = 1.44269504088896340736f;
inline constexpr float kLn2 = 0.69314718055994530942f;
// The maximum of a row before its first key. It is finite, so that differences are never NaN.
inline constexpr float kNoMaximum = -1e30f;
// Accumulators are rescaled only if a row's maximum grows by more than this (log base 2). Sums then
// stay below 2^8 times their true size, which every element type can represent.
inline constexpr float kMaximumSlack = 8.0f;

}  // namespace canopy::kernels

#endif  // KERNELS_ATTENTION_TREE_ATTENTION_DEVICE_CUH_
