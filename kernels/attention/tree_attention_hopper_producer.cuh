// The producer warp of the Hopper form. It takes items from a counter, packs the listed key chunks
// into steps of T::kKeyTile keys, and copies queries, keys, values and exit indices.
#ifndef KERNELS_ATTENTION_TREE_ATTENTION_HOPPER_PRODUCER_CUH_
#define KERNELS_ATTENTION_TREE_ATTENTION_HOPPER_PRODUCER_CUH_

#include <cstdint>

#include "kernels/attention/tree_attention_hopper_tile.cuh"
#include "kernels/primitives/hopper_ptx.cuh"

namespace canopy::kernels::hopper {

// The maps of the keys or of the values.
struct OperandMaps {
  const CUtensorMap& chunk;
  const CUtensorMap& step;
  const CUtensorMap& tail;
};

// The chunks of a step, as seen by one lane.
struct StepChunks {
  int32_t chunk;     // this lane's chunk; unused in lanes T::kChunks and up
  int32_t first;     // lane 0's chunk
  bool consecutive;  // true = all chunks are consecutive, so one box copies them
};

// Starts the copies of a step's keys or values. Runs on all lanes of one warp.
template <typename T>
__device__ __forceinline__ void LoadStep(uint32_t target, const OperandMaps& maps,
                                         const StepChunks& chunks, int32_t tail_chunk,
                                         int32_t kv_head, uint32_t barrier) {
  const int32_t lane = threadIdx.x % 32;
  if (chunks.consecutive) {
    if (lane == 0) {
      LoadBox5(target, maps.step, barrier, 0, 2 * chunks.first, kv_head);
    }
    return;
  }
  if (lane >= T::kChunks) {
    return;
  }
  target += lane * T::kChunkBytes;
  if (chunks.chunk != tail_chunk) {
    LoadBox5(target, maps.chunk, barrier, 0, 2 * chunks.chunk, kv_head);
  } else {
    const int32_t token = chunks.chunk * kKeyChunkTokens;
    LoadBox4(target, maps.tail, barrier, 0, token, 0, kv_head);
    LoadBox4(target + T::kGroupBytes, maps.tail, barrier, 0, token + 8, 0, kv_head);
  }
}

// Publishes an item and starts the copies of its queries. Runs on one lane.
template <typename T>
__device__ __forceinline__ void SendQueries(const Params& p, const Shared<T>& shared,
                                            const Item& item, int32_t buffer) {
  asm volatile("st.shared.v4.s32 [%0], {%1, %2, %3, %4};" ::"r"(shared.ItemAt(buffer)),
               "r"(item.tile), "r"(item.kv_head), "r"(item.steps), "r"(item.masked_steps)
               : "memory");
  const uint32_t q_full = shared.q_full + 8 * buffer;
  if (item.tile < 0) {
    Arrive(q_full);
    return;
  }
  ArriveExpect(q_full, T::kRowBlocks * T::kQueryBytes);
  const int32_t block_tokens = kRows >> p.log2_padded_group;
#pragma unroll
  for (int block = 0; block < T::kRowBlocks; ++block) {
    LoadBox5(shared.QueriesAt(buffer, block), p.q, q_full,
             item.tile * p.tile_tokens + block * block_tokens, 0, item.kv_head);
  }
}

// Copies the keys, the exit indices (only for masked steps) and the values of all steps of an item.
template <typename T>
__device__ __forceinline__ void SendSteps(const Params& p, const Shared<T>& shared,
                                          const Item& item, const int32_t* list,
                                          Ring<T::kStages>& ring) {
  const int32_t lane = threadIdx.x % 32;
  const OperandMaps keys{p.k, p.k_step, p.k_tail};
  const OperandMaps values{p.v, p.v_step, p.v_tail};
  int32_t next_chunk = lane < T::kChunks ? list[lane] : 0;
  for (int32_t step = 0; step < item.steps; ++step) {
    StepChunks chunks;
    chunks.chunk = next_chunk;
    chunks.first = __shfl_sync(0xFFFFFFFF, chunks.chunk, 0);
    chunks.consecutive = __all_sync(
        0xFFFFFFFF, lane >= T::kChunks ||
                        (chunks.chunk == chunks.first + lane && chunks.chunk != p.tail_chunk));
    if (lane < T::kChunks && step + 1 < item.steps) {
      next_chunk = list[(step + 1) * T::kChunks + lane];
    }
    const bool masked = step < item.masked_steps;
    const uint32_t k_full = shared.k_full + 8 * ring.index;
    Wait(shared.k_empty + 8 * ring.index, ring.parity ^ 1);
    if (lane == 0) {
      ArriveExpect(k_full, T::kStepBytes + (masked ? T::kExitBytes : 0));
    }
    __syncwarp();
    LoadStep<T>(shared.KeysAt(ring.index), keys, chunks, p.tail_chunk, item.kv_head, k_full);
    if (masked && lane < T::kChunks) {
      constexpr int32_t kChunkExitBytes = kKeyChunkTokens * 4;
      LoadBytes(shared.ExitsAt(ring.index) + lane * kChunkExitBytes,
                p.lists.exits + static_cast<int64_t>(chunks.chunk) * kKeyChunkTokens,
                kChunkExitBytes, k_full);
    }
    const uint32_t v_full = shared.v_full + 8 * ring.index;
    Wait(shared.v_empty + 8 * ring.index, ring.parity ^ 1);
    if (lane == 0) {
      ArriveExpect(v_full, T::kStepBytes);
    }
    __syncwarp();
    LoadStep<T>(shared.ValuesAt(ring.index), values, chunks, p.tail_chunk, item.kv_head, v_full);
    ring.Advance();
  }
}

// Processes all items. Runs on all lanes of one warp.
template <typename T>
__device__ __forceinline__ void Produce(const Params& p, const Shared<T>& shared) {
  const int32_t lane = threadIdx.x % 32;
  const int32_t num_items = p.lists.num_query_tiles * p.num_kv_heads;
  Ring<T::kStages> ring;
  Ring<T::kQueryBuffers> queries;
  int32_t index = blockIdx.x;
  while (index < num_items) {
    // The next item is requested long before it is needed.
    int32_t next = 0;
    if (lane == 0) {
      next = gridDim.x + atomicAdd(&p.lists.counters[0], 1);
    }
    const int32_t position = index / p.num_kv_heads;
    Item item;
    item.kv_head = index - position * p.num_kv_heads;
    item.tile = p.longest_first ? p.lists.order[position] : position;
    const int2 header = p.lists.headers[item.tile];
    item.steps = header.x;
    item.masked_steps = header.y;

    Wait(shared.q_empty + 8 * queries.index, queries.parity ^ 1);
    if (lane == 0) {
      SendQueries<T>(p, shared, item, queries.index);
    }
    queries.Advance();
    __syncwarp();
    SendSteps<T>(p, shared, item,
                 p.lists.lists + static_cast<int64_t>(item.tile) * p.lists.list_capacity, ring);
    index = __shfl_sync(0xFFFFFFFF, next, 0);
  }
  Wait(shared.q_empty + 8 * queries.index, queries.parity ^ 1);
  if (lane != 0) {
    return;
  }
  SendQueries<T>(p, shared, Item{-1, 0, 0, 0}, queries.index);
  // The last block to finish resets the counters.
  __threadfence();
  if (atomicAdd(&p.lists.counters[1], 1) == static_cast<int32_t>(gridDim.x) - 1) {
    p.lists.counters[0] = 0;
    p.lists.counters[1] = 0;
  }
}

}  // namespace canopy::kernels::hopper

#endif  // KERNELS_ATTENTION_TREE_ATTENTION_HOPPER_PRODUCER_CUH_
