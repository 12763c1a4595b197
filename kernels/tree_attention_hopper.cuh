// Tree attention with Hopper's warpgroup products and copy engine.
//
// One persistent block a multiprocessor; an item is a query tile with all query heads of one kv
// head. Warp 0 of the first warpgroup is the producer: it takes items from a counter, packs the
// listed key chunks into steps of kKeyTile keys and copies them; the other warpgroups compute, 64
// rows each. Per step: next scores issued, this step's output product issued, softmax of the next
// scores while the latter runs. Queries have two buffers, so that an item's queries arrive during
// the item before; outputs are staged where the item's queries were.
//
// Shared memory of an operand is [8 tokens][head_dim / 64][64 elements] with the 128-byte swizzle,
// so that one box of the copy engine holds a chunk of 16 tokens.
#ifndef KERNELS_TREE_ATTENTION_HOPPER_CUH_
#define KERNELS_TREE_ATTENTION_HOPPER_CUH_

#include <cuda.h>

#include <cstdint>
#include <type_traits>

#include "kernels/hopper_ptx.cuh"
#include "kernels/launch.cuh"
#include "kernels/tree_attention_device.cuh"
#include "kernels/tree_attention_softmax.cuh"

namespace canopy::kernels::hopper {

inline constexpr int kRows = 64;  // of a warpgroup
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

  static constexpr int kQueryBytes = kRows * kHeadDim * 2;  // of a warpgroup
  static constexpr int kQueryBuffers = 2;
  static constexpr int kQueries = kQueryBuffers * kRowBlocks * kQueryBytes;
  static constexpr int kGroupBytes = 8 * kHeadDim * 2;  // 8 tokens
  static constexpr int kChunkBytes = 2 * kGroupBytes;
  static constexpr int kStepBytes = kKeyTile * kHeadDim * 2;
  static constexpr int kExitBytes = kKeyTile * 4;

  static constexpr int kAlignment = 1024;  // of the swizzle
  static constexpr int kBarrierBytes = 512;
  static constexpr int kMaxShared = 227 * 1024;
  static constexpr int kFit =
      (kMaxShared - kAlignment - kBarrierBytes - kQueries) / (2 * kStepBytes + kExitBytes);
  static constexpr int kStages = kFit < 8 ? kFit : 8;
  static_assert(kStages >= 2, "no room to copy ahead");
  static constexpr int kSharedBytes =
      kAlignment + kBarrierBytes + kQueries + kStages * (2 * kStepBytes + kExitBytes);

  // 64K registers: 128 threads of the producer's warpgroup give theirs to the others.
  static constexpr int kProducerRegisters = kRowBlocks == 2 ? 40 : 32;
  static constexpr int kConsumerRegisters = kRowBlocks == 2 ? 232 : 160;
};

struct Params {
  CUtensorMap q, out;          // [64, group, tokens, halves, kv heads]
  CUtensorMap k, v;            // [64, 8, halves, tokens / 8, kv heads], a chunk a box
  CUtensorMap k_step, v_step;  // as k and v, a step a box
  CUtensorMap k_tail, v_tail;  // [64, tokens, halves, kv heads]: for a last chunk that ends inside
                               // a group of 8
  VisibilityLists lists;
  float* log_sum_exp;
  int32_t num_tokens;
  int32_t num_kv_heads;
  int32_t group;
  int32_t log2_padded_group;
  int32_t tile_tokens;
  int32_t tail_chunk;  // -1: none
  bool longest_first;
  float scale;
};

// What the producer tells about an item; arrives with its queries.
struct Item {
  int32_t tile;  // -1: no more
  int32_t kv_head;
  int32_t steps;
  int32_t masked_steps;
};

// Shared addresses.
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
};

// A position in a ring of buffers, with the parity of the phase that is waited for.
template <int kSize>
struct Ring {
  int32_t index = 0;
  uint32_t parity = 0;
  __device__ __forceinline__ void Advance() {
    if (++index == kSize) {
      index = 0;
      parity ^= 1;
    }
  }
};

// The maps of keys or of values.
struct OperandMaps {
  const CUtensorMap& chunk;
  const CUtensorMap& step;
  const CUtensorMap& tail;
};

// Which chunks of a step this lane copies.
struct StepChunks {
  int32_t chunk;     // this lane's; lanes from T::kChunks on have none
  int32_t first;     // lane 0's
  bool consecutive;  // all chunks follow each other: one box
};

// Starts the copies of a step's keys or values. Runs on all lanes of one warp.
template <typename T>
__device__ __forceinline__ void LoadStep(uint32_t target, const OperandMaps& maps,
                                         const StepChunks& chunks, int32_t tail_chunk,
                                         int32_t kv_head, uint32_t barrier) {
  const int32_t lane = threadIdx.x % 32;
  if (chunks.consecutive) {
    if (lane == 0) LoadBox5(target, maps.step, barrier, 0, 2 * chunks.first, kv_head);
    return;
  }
  if (lane >= T::kChunks) return;
  target += lane * T::kChunkBytes;
  if (chunks.chunk != tail_chunk) {
    LoadBox5(target, maps.chunk, barrier, 0, 2 * chunks.chunk, kv_head);
  } else {
    const int32_t token = chunks.chunk * kKeyChunkTokens;
    LoadBox4(target, maps.tail, barrier, 0, token, 0, kv_head);
    LoadBox4(target + T::kGroupBytes, maps.tail, barrier, 0, token + 8, 0, kv_head);
  }
}

// Runs on all lanes of one warp.
template <typename T>
__device__ __forceinline__ void Produce(const Params& p, const Shared<T>& shared) {
  const int32_t lane = threadIdx.x % 32;
  const int32_t num_items = p.lists.num_query_tiles * p.num_kv_heads;
  Ring<T::kStages> ring;
  Ring<T::kQueryBuffers> queries;
  const OperandMaps keys{p.k, p.k_step, p.k_tail};
  const OperandMaps values{p.v, p.v_step, p.v_tail};
  int32_t item = blockIdx.x;
  while (item < num_items) {
    // The next item, long before it is needed.
    int32_t next = 0;
    if (lane == 0) next = gridDim.x + atomicAdd(&p.lists.counters[0], 1);
    const int32_t position = item / p.num_kv_heads;
    const int32_t kv_head = item - position * p.num_kv_heads;
    const int32_t tile = p.longest_first ? p.lists.order[position] : position;
    const int2 header = p.lists.headers[tile];
    const int32_t* list = p.lists.lists + static_cast<int64_t>(tile) * p.lists.list_capacity;
    int32_t chunk = lane < T::kChunks ? list[lane] : 0;

    Wait(shared.q_empty + 8 * queries.index, queries.parity ^ 1);
    const uint32_t q_full = shared.q_full + 8 * queries.index;
    if (lane == 0) {
      asm volatile("st.shared.v4.s32 [%0], {%1, %2, %3, %4};" ::"r"(
                       shared.items + static_cast<uint32_t>(sizeof(Item)) * queries.index),
                   "r"(tile), "r"(kv_head), "r"(header.x), "r"(header.y)
                   : "memory");
      ArriveExpect(q_full, T::kRowBlocks * T::kQueryBytes);
      const int32_t block_tokens = kRows >> p.log2_padded_group;
#pragma unroll
      for (int block = 0; block < T::kRowBlocks; ++block) {
        LoadBox5(shared.queries + (queries.index * T::kRowBlocks + block) * T::kQueryBytes, p.q,
                 q_full, tile * p.tile_tokens + block * block_tokens, 0, kv_head);
      }
    }
    queries.Advance();
    __syncwarp();

    for (int32_t step = 0; step < header.x; ++step) {
      StepChunks chunks;
      chunks.chunk = chunk;
      chunks.first = __shfl_sync(0xFFFFFFFF, chunk, 0);
      chunks.consecutive =
          __all_sync(0xFFFFFFFF,
                     lane >= T::kChunks || (chunk == chunks.first + lane && chunk != p.tail_chunk));
      if (lane < T::kChunks && step + 1 < header.x) chunk = list[(step + 1) * T::kChunks + lane];
      const bool masked = step < header.y;
      const uint32_t k_full = shared.k_full + 8 * ring.index;
      const uint32_t v_full = shared.v_full + 8 * ring.index;
      Wait(shared.k_empty + 8 * ring.index, ring.parity ^ 1);
      if (lane == 0) ArriveExpect(k_full, T::kStepBytes + (masked ? T::kExitBytes : 0));
      __syncwarp();
      LoadStep<T>(shared.keys + ring.index * T::kStepBytes, keys, chunks, p.tail_chunk, kv_head,
                  k_full);
      if (masked && lane < T::kChunks) {
        constexpr int32_t kChunkExitBytes = kKeyChunkTokens * 4;
        LoadBytes(shared.exits + ring.index * T::kExitBytes + lane * kChunkExitBytes,
                  p.lists.exits + static_cast<int64_t>(chunks.chunk) * kKeyChunkTokens,
                  kChunkExitBytes, k_full);
      }
      Wait(shared.v_empty + 8 * ring.index, ring.parity ^ 1);
      if (lane == 0) ArriveExpect(v_full, T::kStepBytes);
      __syncwarp();
      LoadStep<T>(shared.values + ring.index * T::kStepBytes, values, chunks, p.tail_chunk, kv_head,
                  v_full);
      ring.Advance();
    }
    item = __shfl_sync(0xFFFFFFFF, next, 0);
  }
  Wait(shared.q_empty + 8 * queries.index, queries.parity ^ 1);
  if (lane == 0) {
    asm volatile("st.shared.s32 [%0], %1;" ::"r"(
                     shared.items + static_cast<uint32_t>(sizeof(Item)) * queries.index),
                 "r"(-1)
                 : "memory");
    Arrive(shared.q_full + 8 * queries.index);
    // The last block leaves the counters as it found them.
    __threadfence();
    if (atomicAdd(&p.lists.counters[1], 1) == static_cast<int32_t>(gridDim.x) - 1) {
      p.lists.counters[0] = 0;
      p.lists.counters[1] = 0;
    }
  }
}

// scores = queries x keys^T over the head dimension.
template <typename T>
__device__ __forceinline__ void IssueScores(float (&scores)[T::kKeyTile / 2], uint32_t queries,
                                            uint32_t keys) {
  const OperandDescriptor a(queries, 0, 1024);
  const OperandDescriptor b(keys, 0, T::kGroupBytes);
#pragma unroll
  for (int i = 0; i < T::kHeadDim / 16; ++i) {
    const uint64_t q = a.At(i / 4 * kRows * 128 + i % 4 * 32);
    const uint64_t k = b.At(i / 4 * 1024 + i % 4 * 32);
    if constexpr (std::is_same_v<typename T::Element, __half>) {
      SharedProductF16(scores, q, k, i > 0);
    } else {
      SharedProductBf16(scores, q, k, i > 0);
    }
  }
  CommitProducts();
}

// output (+)= probabilities x values.
template <typename T>
__device__ __forceinline__ void IssueOutput(float (&output)[T::kHeadDim / 2],
                                            const uint32_t (&probabilities)[T::kKeyTile / 4],
                                            uint32_t values, bool accumulate) {
  const OperandDescriptor b(values, 1024, T::kGroupBytes);
#pragma unroll
  for (int i = 0; i < T::kKeyTile / 16; ++i) {
    if constexpr (std::is_same_v<typename T::Element, __half>) {
      RegisterProductF16(output, probabilities + 4 * i, b.At(i * T::kChunkBytes),
                         i > 0 || accumulate);
    } else {
      RegisterProductBf16(output, probabilities + 4 * i, b.At(i * T::kChunkBytes),
                          i > 0 || accumulate);
    }
  }
  CommitProducts();
}

__device__ __forceinline__ Item ReadItem(uint32_t address) {
  Item item;
  asm volatile("ld.shared.v4.s32 {%0, %1, %2, %3}, [%4];"
               : "=r"(item.tile), "=r"(item.kv_head), "=r"(item.steps), "=r"(item.masked_steps)
               : "r"(address)
               : "memory");
  // ptxas serialises the products where it cannot prove that loops are the same for a whole warp.
  item.tile = __shfl_sync(0xFFFFFFFF, item.tile, 0);
  item.kv_head = __shfl_sync(0xFFFFFFFF, item.kv_head, 0);
  item.steps = __shfl_sync(0xFFFFFFFF, item.steps, 0);
  item.masked_steps = __shfl_sync(0xFFFFFFFF, item.masked_steps, 0);
  return item;
}

// Divides by the sums, stages the output where the queries were and hands it to the copy engine.
template <typename T>
__device__ __forceinline__ void Finish(const Params& p, const Item& item, uint32_t staging,
                                       int32_t first_token, int32_t block,
                                       const SoftmaxState& state,
                                       float (&output)[T::kHeadDim / 2]) {
  const int32_t thread = threadIdx.x % kWarpgroup;
  const int32_t warp = thread / 32;
  const int32_t lane = thread % 32;
  const float sum[2] = {RowSum(state.sum[0]), RowSum(state.sum[1])};
  const float inverse[2] = {__fdividef(1.0f, sum[0]), __fdividef(1.0f, sum[1])};
  // All warps of the group are done with the queries.
  SyncNamed(1 + block, kWarpgroup);
  const int32_t row = warp * 16 + (lane / 8 % 2) * 8 + lane % 8;
#pragma unroll
  for (int i = 0; i < T::kHeadDim / 16; ++i) {
    const int32_t column16 = 2 * i + lane / 16;  // in units of 16 bytes
    const uint32_t address =
        staging + (column16 / 8) * kRows * 128 + row * 128 + ((column16 % 8) ^ (lane % 8)) * 16;
    const float* o = output + 8 * i;
    StoreMatrices(address, Pack<typename T::Element>(o[0] * inverse[0], o[1] * inverse[0]),
                  Pack<typename T::Element>(o[2] * inverse[1], o[3] * inverse[1]),
                  Pack<typename T::Element>(o[4] * inverse[0], o[5] * inverse[0]),
                  Pack<typename T::Element>(o[6] * inverse[1], o[7] * inverse[1]));
  }
  FenceAsyncProxy();
  SyncNamed(1 + block, kWarpgroup);
  if (thread == 0) StoreBox5(staging, p.out, first_token, 0, item.kv_head);
  // Last: the fence would wait for these stores.
  if (p.log_sum_exp == nullptr || lane % 4 != 0) return;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int32_t sum_row = warp * 16 + i * 8 + lane / 4;
    const int32_t token = first_token + (sum_row >> p.log2_padded_group);
    const int32_t head = sum_row & ((1 << p.log2_padded_group) - 1);
    if (token >= p.num_tokens || head >= p.group) continue;
    p.log_sum_exp[(static_cast<int64_t>(token) * p.num_kv_heads + item.kv_head) * p.group + head] =
        state.max[i] * p.scale + __logf(sum[i]);
  }
}

// Runs on all threads of one warpgroup; `block` is its row block.
template <typename T>
__device__ __forceinline__ void Consume(const Params& p, const Shared<T>& shared, int32_t block) {
  const int32_t thread = threadIdx.x % kWarpgroup;
  const int32_t lane = thread % 32;
  const float scale_log2 = p.scale * kLog2E;
  Ring<T::kStages> k_ring;
  Ring<T::kStages> v_ring;
  Ring<T::kQueryBuffers> queries;
  uint32_t stored_buffer = 0;  // barrier of a query buffer whose output is on its way; 0: none

  while (true) {
    Wait(shared.q_full + 8 * queries.index, queries.parity);
    const Item item = ReadItem(shared.items + static_cast<uint32_t>(sizeof(Item)) * queries.index);
    if (item.tile < 0) break;
    const uint32_t query =
        shared.queries + (queries.index * T::kRowBlocks + block) * T::kQueryBytes;
    const int32_t first_token = item.tile * p.tile_tokens + block * (kRows >> p.log2_padded_group);
    const OwnChunks own = OwnChunksOf(item.tile, p.tile_tokens, p.num_tokens);
    MaskRows rows;
    const int32_t row = thread / 32 * 16 + lane / 4;
    rows.token[0] = first_token + (row >> p.log2_padded_group);
    rows.token[1] = first_token + ((row + 8) >> p.log2_padded_group);
    rows.own_token = own.first * kKeyChunkTokens;
    rows.own_keys = (own.end - own.first) * kKeyChunkTokens;

    float output[T::kHeadDim / 2];
    float scores[T::kKeyTile / 2];
    uint32_t probabilities[T::kKeyTile / 4];
    float rescale[2];
    SoftmaxState state;

    // The first step always holds own chunks, so it is masked.
    Wait(shared.k_full + 8 * k_ring.index, k_ring.parity);
    FenceProducts();
    IssueScores<T>(scores, query, shared.keys + k_ring.index * T::kStepBytes);
    WaitProducts<0>();
    Pin(scores);
    MaskScores(scores, shared.exits + k_ring.index * T::kExitBytes, rows, 0);
    if (lane == 0) Arrive(shared.k_empty + 8 * k_ring.index);
    k_ring.Advance();
    SoftmaxStep(scores, scale_log2, state, rescale);
    PackScores<typename T::Element>(scores, probabilities);
    if (stored_buffer != 0) {
      if (thread == 0) {
        WaitStoresRead();
        Arrive(stored_buffer);
      }
    }

    for (int32_t step = 1; step < item.steps; ++step) {
      Wait(shared.k_full + 8 * k_ring.index, k_ring.parity);
      Pin(scores);
      FenceProducts();
      IssueScores<T>(scores, query, shared.keys + k_ring.index * T::kStepBytes);
      Wait(shared.v_full + 8 * v_ring.index, v_ring.parity);
      Pin(output);
      FenceProducts();
      IssueOutput<T>(output, probabilities, shared.values + v_ring.index * T::kStepBytes, step > 1);
      WaitProducts<1>();
      Pin(scores);
      if (step < item.masked_steps) {
        MaskScores(scores, shared.exits + k_ring.index * T::kExitBytes, rows, step * T::kKeyTile);
      }
      if (lane == 0) Arrive(shared.k_empty + 8 * k_ring.index);
      k_ring.Advance();
      // The branch keeps the exponentials before the wait.
      if (SoftmaxStep(scores, scale_log2, state, rescale)) {
        WaitProducts<0>();
        Pin(output);
        Rescale(output, rescale);
      }
      WaitProducts<0>();
      Pin(output);
      if (lane == 0) Arrive(shared.v_empty + 8 * v_ring.index);
      v_ring.Advance();
      PackScores<typename T::Element>(scores, probabilities);
    }
    Wait(shared.v_full + 8 * v_ring.index, v_ring.parity);
    Pin(output);
    FenceProducts();
    IssueOutput<T>(output, probabilities, shared.values + v_ring.index * T::kStepBytes,
                   item.steps > 1);
    WaitProducts<0>();
    Pin(output);
    if (lane == 0) Arrive(shared.v_empty + 8 * v_ring.index);
    v_ring.Advance();

    Finish<T>(p, item, query, first_token, block, state, output);
    stored_buffer = shared.q_empty + 8 * queries.index;
    queries.Advance();
  }
}

template <typename T>
__global__ void __launch_bounds__(T::kThreads, 1)
    TreeAttentionKernel(const __grid_constant__ Params p) {
  extern __shared__ char raw[];
  const Shared<T> shared(SharedAddress(raw));
  if (threadIdx.x == 0) {
    constexpr uint32_t kConsumerWarps = T::kRowBlocks * 4;
    for (int i = 0; i < T::kQueryBuffers; ++i) {
      InitBarrier(shared.q_full + 8 * i, 1);
      InitBarrier(shared.q_empty + 8 * i, T::kRowBlocks);
    }
    for (int i = 0; i < T::kStages; ++i) {
      InitBarrier(shared.k_full + 8 * i, 1);
      InitBarrier(shared.k_empty + 8 * i, kConsumerWarps);
      InitBarrier(shared.v_full + 8 * i, 1);
      InitBarrier(shared.v_empty + 8 * i, kConsumerWarps);
    }
    FenceBarrierInit();
  }
  __syncthreads();
  WaitForEarlierKernels();
  const int32_t warpgroup =
      __shfl_sync(0xFFFFFFFF, static_cast<int32_t>(threadIdx.x) / kWarpgroup, 0);
  if (warpgroup == 0) {
    ShrinkRegisters<T::kProducerRegisters>();
    const int32_t warp = __shfl_sync(0xFFFFFFFF, static_cast<int32_t>(threadIdx.x) / 32, 0);
    if (warp == 0) Produce<T>(p, shared);
  } else {
    GrowRegisters<T::kConsumerRegisters>();
    Consume<T>(p, shared, warpgroup - 1);
  }
}

}  // namespace canopy::kernels::hopper

#endif  // KERNELS_TREE_ATTENTION_HOPPER_CUH_
