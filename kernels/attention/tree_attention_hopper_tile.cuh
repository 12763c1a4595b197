// Sizes, shared memory and parameters of the Hopper form, which producers and consumers share.
//
// An operand in shared memory is [8 tokens][head_dim / 64][64 elements] with the 128-byte swizzle,
// so that one box of the copy engine holds a chunk of 16 tokens.
#ifndef KERNELS_ATTENTION_TREE_ATTENTION_HOPPER_TILE_CUH_
#define KERNELS_ATTENTION_TREE_ATTENTION_HOPPER_TILE_CUH_

#include <cuda.h>

#include <cstdint>

#include "kernels/attention/tree_attention_device.cuh"
#include "kernels/primitives/ring.cuh"

namespace canopy::kernels::hopper {

inline constexpr int kRows = 64;  // rows of a warpgroup
inline constexpr int kWarpgroup = 128;

template <int kRowBlocksOfTile, int kKeysOfStep, int kDim, typename ElementType>
struct Tile {
  using Element = ElementType;
  static constexpr int kRowBlocks = kRowBlocksOfTile;
  static constexpr int kKeyTile = kKeysOfStep;
  static constexpr int kHeadDim = kDim;
  static constexpr int kHalves = kHeadDim / 64;
  static constexpr int kThreads = (kRowBlocks + 1) * kWarpgroup;
  static constexpr int kChunks = kKeyTile / kKeyChunkTokens;

  static constexpr int kQueryBytes = kRows * kHeadDim * 2;  // per warpgroup
  static constexpr int kQueryBuffers = 2;
  static constexpr int kQueries = kQueryBuffers * kRowBlocks * kQueryBytes;
  static constexpr int kGroupBytes = 8 * kHeadDim * 2;  // a group has 8 tokens
  static constexpr int kChunkBytes = 2 * kGroupBytes;
  static constexpr int kStepBytes = kKeyTile * kHeadDim * 2;
  static constexpr int kExitBytes = kKeyTile * 4;

  static constexpr int kAlignment = 1024;  // required by the swizzle
  static constexpr int kBarrierBytes = 512;
  static constexpr int kMaxShared = 227 * 1024;
  static constexpr int kFit =
      (kMaxShared - kAlignment - kBarrierBytes - kQueries) / (2 * kStepBytes + kExitBytes);
  static constexpr int kStages = kFit < 8 ? kFit : 8;
  static_assert(kStages >= 2, "no room to copy ahead");
  static constexpr int kSharedBytes =
      kAlignment + kBarrierBytes + kQueries + kStages * (2 * kStepBytes + kExitBytes);

  // The multiprocessor has 64K registers. The 128 threads of the producer's warpgroup give some of
  // theirs to the consumers.
  static constexpr int kProducerRegisters = kRowBlocks == 2 ? 40 : 32;
  static constexpr int kConsumerRegisters = kRowBlocks == 2 ? 232 : 160;
};

struct Params {
  CUtensorMap q, out;          // [64, group, tokens, halves, kv heads]
  CUtensorMap k, v;            // [64, 8, halves, tokens / 8, kv heads], one chunk per box
  CUtensorMap k_step, v_step;  // as k and v, but one step per box
  // [64, tokens, halves, kv heads]: for a last chunk that ends within a group of 8
  CUtensorMap k_tail, v_tail;
  VisibilityLists lists;
  float* log_sum_exp;
  int32_t num_tokens;
  int32_t num_kv_heads;
  int32_t group;
  int32_t log2_padded_group;
  int32_t tile_tokens;
  int32_t tail_chunk;  // chunk copied with the tail maps; -1 = none
  bool longest_first;
  float scale;
};

// The description of an item, which the producer sends together with the item's queries.
struct Item {
  int32_t tile;  // -1 = no more items
  int32_t kv_head;
  int32_t steps;
  int32_t masked_steps;
};

// Addresses in shared memory.
template <typename T>
struct Shared {
  uint32_t queries;                           // [buffer][row block]
  uint32_t keys;                              // [stage]
  uint32_t values;                            // [stage]
  uint32_t exits;                             // [stage]
  uint32_t items;                             // [buffer]
  uint32_t q_full, q_empty;                   // [buffer]
  uint32_t k_full, k_empty, v_full, v_empty;  // [stage]

  __device__ explicit Shared(uint32_t raw) {
    const uint32_t base = (raw + T::kAlignment - 1) / T::kAlignment * T::kAlignment;
    queries = base;
    keys = queries + T::kQueries;
    values = keys + T::kStages * T::kStepBytes;
    exits = values + T::kStages * T::kStepBytes;
    items = exits + T::kStages * T::kExitBytes;
    q_full = items + T::kQueryBuffers * sizeof(Item);
    q_empty = q_full + 8 * T::kQueryBuffers;
    k_full = q_empty + 8 * T::kQueryBuffers;
    k_empty = k_full + 8 * T::kStages;
    v_full = k_empty + 8 * T::kStages;
    v_empty = v_full + 8 * T::kStages;
  }

  __device__ __forceinline__ uint32_t QueriesAt(int32_t buffer, int32_t block) const {
    return queries + (buffer * T::kRowBlocks + block) * T::kQueryBytes;
  }
  __device__ __forceinline__ uint32_t ItemAt(int32_t buffer) const {
    return items + static_cast<uint32_t>(sizeof(Item)) * buffer;
  }
  __device__ __forceinline__ uint32_t KeysAt(int32_t stage) const {
    return keys + stage * T::kStepBytes;
  }
  __device__ __forceinline__ uint32_t ValuesAt(int32_t stage) const {
    return values + stage * T::kStepBytes;
  }
  __device__ __forceinline__ uint32_t ExitsAt(int32_t stage) const {
    return exits + stage * T::kExitBytes;
  }
};

}  // namespace canopy::kernels::hopper

#endif  // KERNELS_ATTENTION_TREE_ATTENTION_HOPPER_TILE_CUH_
