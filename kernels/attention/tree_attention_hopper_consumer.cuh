// The consumer warpgroups of the Hopper form, with 64 rows each. In each step a consumer issues the
// score product of the next step, then the output product of this step, and computes the softmax of
// the next scores while the output product runs.
#ifndef KERNELS_ATTENTION_TREE_ATTENTION_HOPPER_CONSUMER_CUH_
#define KERNELS_ATTENTION_TREE_ATTENTION_HOPPER_CONSUMER_CUH_

#include <cstdint>
#include <type_traits>

#include "kernels/attention/tree_attention_hopper_tile.cuh"
#include "kernels/attention/tree_attention_softmax.cuh"
#include "kernels/primitives/hopper_ptx.cuh"

namespace canopy::kernels::hopper {

// Issues scores = queries x keys^T over the head dimension.
template <typename T>
__device__ __forceinline__ void IssueScores(float (&scores)[T::kKeyTile / 2], uint32_t queries,
                                            uint32_t keys) {
  const OperandDescriptor a(queries, 0, 1024);
  const OperandDescriptor b(keys, 0, T::kGroupBytes);
#pragma unroll
  for (int i = 0; i < T::kHeadDim / 16; ++i) {
    const uint64_t q = a.At(i / 4 * kRows * 128 + i % 4 * 32);
    const uint64_t k = b.At(i / 4 * 1024 + i % 4 * 32);
    SharedProduct<typename T::Element>(scores, q, k, i > 0);
  }
  CommitProducts();
}

// Issues output (+)= probabilities x values.
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
  // ptxas serializes the products if it cannot prove that loop bounds are uniform across a warp.
  item.tile = __shfl_sync(0xFFFFFFFF, item.tile, 0);
  item.kv_head = __shfl_sync(0xFFFFFFFF, item.kv_head, 0);
  item.steps = __shfl_sync(0xFFFFFFFF, item.steps, 0);
  item.masked_steps = __shfl_sync(0xFFFFFFFF, item.masked_steps, 0);
  return item;
}

// Divides by the sums, stages the output in the buffer of the queries and starts its copy to
// memory.
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
  // Waits until all warps of the group have finished reading the queries.
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
  if (thread == 0) {
    StoreBox5(staging, p.out, first_token, 0, item.kv_head);
  }
  // These stores come last, because the fence would wait for them.
  if (p.log_sum_exp == nullptr || lane % 4 != 0) {
    return;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int32_t sum_row = warp * 16 + i * 8 + lane / 4;
    const int32_t token = first_token + (sum_row >> p.log2_padded_group);
    const int32_t head = sum_row & ((1 << p.log2_padded_group) - 1);
    if (token >= p.num_tokens || head >= p.group) {
      continue;
    }
    p.log_sum_exp[(static_cast<int64_t>(token) * p.num_kv_heads + item.kv_head) * p.group + head] =
        state.max[i] * p.scale + __logf(sum[i]);
  }
}

// Returns the two rows of this thread for the mask.
__device__ __forceinline__ MaskRows MaskRowsOf(const Params& p, int32_t tile, int32_t first_token) {
  const int32_t thread = threadIdx.x % kWarpgroup;
  const int32_t row = thread / 32 * 16 + thread % 32 / 4;
  const OwnChunks own = OwnChunksOf(tile, p.tile_tokens, p.num_tokens);
  MaskRows rows;
  rows.token[0] = first_token + (row >> p.log2_padded_group);
  rows.token[1] = first_token + ((row + 8) >> p.log2_padded_group);
  rows.own_token = own.first * kKeyChunkTokens;
  rows.own_keys = (own.end - own.first) * kKeyChunkTokens;
  return rows;
}

// Consumer barriers count one arrival per warp.
__device__ __forceinline__ void ArriveWarp(uint32_t barrier) {
  if (threadIdx.x % 32 == 0) {
    Arrive(barrier);
  }
}

// Processes all items. Runs on all threads of one warpgroup; `block` is its row block.
template <typename T>
__device__ __forceinline__ void Consume(const Params& p, const Shared<T>& shared, int32_t block) {
  using Element = typename T::Element;
  const bool is_first_thread = threadIdx.x % kWarpgroup == 0;
  const float scale_log2 = p.scale * kLog2E;
  Ring<T::kStages> k_ring;
  Ring<T::kStages> v_ring;
  Ring<T::kQueryBuffers> queries;
  uint32_t stored_buffer = 0;  // barrier of a query buffer whose output is being stored; 0 = none

  while (true) {
    Wait(shared.q_full + 8 * queries.index, queries.parity);
    const Item item = ReadItem(shared.ItemAt(queries.index));
    if (item.tile < 0) {
      break;
    }
    const uint32_t query = shared.QueriesAt(queries.index, block);
    const int32_t first_token = item.tile * p.tile_tokens + block * (kRows >> p.log2_padded_group);
    const MaskRows rows = MaskRowsOf(p, item.tile, first_token);
    float output[T::kHeadDim / 2];
    float scores[T::kKeyTile / 2];
    uint32_t probabilities[T::kKeyTile / 4];
    float rescale[2];
    SoftmaxState state;

    // The first step always contains chunks of the tile itself, so it is masked.
    Wait(shared.k_full + 8 * k_ring.index, k_ring.parity);
    FenceProducts();
    IssueScores<T>(scores, query, shared.KeysAt(k_ring.index));
    WaitProducts<0>();
    Pin(scores);
    MaskScores(scores, shared.ExitsAt(k_ring.index), rows, 0);
    ArriveWarp(shared.k_empty + 8 * k_ring.index);
    k_ring.Advance();
    SoftmaxStep(scores, scale_log2, state, rescale);
    PackScores<Element>(scores, probabilities);
    if (stored_buffer != 0 && is_first_thread) {
      WaitStoresRead();
      Arrive(stored_buffer);
    }

    for (int32_t step = 1; step < item.steps; ++step) {
      Wait(shared.k_full + 8 * k_ring.index, k_ring.parity);
      Pin(scores);
      FenceProducts();
      IssueScores<T>(scores, query, shared.KeysAt(k_ring.index));
      Wait(shared.v_full + 8 * v_ring.index, v_ring.parity);
      Pin(output);
      FenceProducts();
      IssueOutput<T>(output, probabilities, shared.ValuesAt(v_ring.index), step > 1);
      WaitProducts<1>();
      Pin(scores);
      if (step < item.masked_steps) {
        MaskScores(scores, shared.ExitsAt(k_ring.index), rows, step * T::kKeyTile);
      }
      ArriveWarp(shared.k_empty + 8 * k_ring.index);
      k_ring.Advance();
      // The branch makes the compiler schedule the exponentials before the wait.
      if (SoftmaxStep(scores, scale_log2, state, rescale)) {
        WaitProducts<0>();
        Pin(output);
        Rescale(output, rescale);
      }
      WaitProducts<0>();
      Pin(output);
      ArriveWarp(shared.v_empty + 8 * v_ring.index);
      v_ring.Advance();
      PackScores<Element>(scores, probabilities);
    }
    Wait(shared.v_full + 8 * v_ring.index, v_ring.parity);
    Pin(output);
    FenceProducts();
    IssueOutput<T>(output, probabilities, shared.ValuesAt(v_ring.index), item.steps > 1);
    WaitProducts<0>();
    Pin(output);
    ArriveWarp(shared.v_empty + 8 * v_ring.index);
    v_ring.Advance();

    Finish<T>(p, item, query, first_token, block, state, output);
    stored_buffer = shared.q_empty + 8 * queries.index;
    queries.Advance();
  }
  // Shared memory must remain valid until the last store has read it.
  if (is_first_thread) {
    WaitStoresRead();
  }
}

}  // namespace canopy::kernels::hopper

#endif  // KERNELS_ATTENTION_TREE_ATTENTION_HOPPER_CONSUMER_CUH_
