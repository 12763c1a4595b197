// The online softmax of one step on a thread's part of 16 score rows. mma and wgmma have the same
// accumulator layout: lane l of a warp holds rows l / 4 (slots 4n, 4n + 1) and l / 4 + 8 (slots 4n
// + 2, 4n + 3) at columns 8n + 2 (l % 4) + {0, 1}.
#ifndef KERNELS_ATTENTION_TREE_ATTENTION_SOFTMAX_CUH_
#define KERNELS_ATTENTION_TREE_ATTENTION_SOFTMAX_CUH_

#include <cmath>
#include <cstdint>

#include "kernels/attention/tree_attention_device.cuh"

namespace canopy::kernels {

struct SoftmaxState {
  // maximum of raw scores; may be too low by kMaximumSlack
  float max[2] = {kNoMaximum, kNoMaximum};
  float sum[2] = {0, 0};  // this thread's part of the sum
};

// The positions of a thread's two rows for the mask.
struct MaskRows {
  int32_t token[2];   // token of each row
  int32_t own_token;  // first token of the query tile's own chunks
  int32_t own_keys;   // number of keys in the own chunks, which come first in the list
};

// Sets the scores of keys that a row does not read to -inf. `exits` is the shared-memory address of
// the exit indices of the step's keys; `first_key` is the number of keys of the list before this
// step. Own keys may come after a query, so kOwn compares positions too. All other keys come before
// the tile.
template <bool kOwn, int kScores>
__device__ __forceinline__ void MaskStep(float (&scores)[kScores], uint32_t exits,
                                         const MaskRows& rows, int32_t first_key) {
  const int32_t lane_column = 2 * (threadIdx.x % 4);
  // Columns from here on, counted from the lane's first column, are not own keys.
  const int32_t other_column = rows.own_keys - first_key - lane_column;
  // Own keys up to these columns do not come after the row's token.
  const int32_t last_column[2] = {rows.token[0] - rows.own_token - first_key - lane_column,
                                  rows.token[1] - rows.own_token - first_key - lane_column};
#pragma unroll
  for (int n = 0; n < kScores / 4; ++n) {
    int32_t exit[2];
    asm volatile("ld.shared.v2.s32 {%0, %1}, [%2];"
                 : "=r"(exit[0]), "=r"(exit[1])
                 : "r"(exits + 4 * (8 * n + lane_column)));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      bool visible = rows.token[i / 2] <= exit[i % 2];
      if constexpr (kOwn) {
        const int32_t column = 8 * n + i % 2;
        // The operators are bitwise because a branch per element would be far slower.
        visible = static_cast<bool>(visible &
                                    ((column >= other_column) | (column <= last_column[i / 2])));
      }
      scores[4 * n + i] = visible ? scores[4 * n + i] : -INFINITY;
    }
  }
}

template <int kScores>
__device__ __forceinline__ void MaskScores(float (&scores)[kScores], uint32_t exits,
                                           const MaskRows& rows, int32_t first_key) {
  if (first_key < rows.own_keys) {
    MaskStep<true>(scores, exits, rows, first_key);
  } else {
    MaskStep<false>(scores, exits, rows, first_key);
  }
}

// Replaces scores by exp(scale x (score - max)) and adds them to the sums. Returns true if the
// output so far must be multiplied by `rescale`. The result is the same in all lanes of a warp.
template <int kScores>
__device__ __forceinline__ bool SoftmaxStep(float (&scores)[kScores], float scale_log2,
                                            SoftmaxState& state, float (&rescale)[2]) {
  float max[2] = {state.max[0], state.max[1]};
#pragma unroll
  for (int n = 0; n < kScores / 4; ++n) {
    max[0] = fmaxf(max[0], fmaxf(scores[4 * n], scores[4 * n + 1]));
    max[1] = fmaxf(max[1], fmaxf(scores[4 * n + 2], scores[4 * n + 3]));
  }
  bool must_rescale = false;
  float offset[2];
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    max[row] = RowMax(max[row]);
    const bool grown = (max[row] - state.max[row]) * scale_log2 > kMaximumSlack;
    const float new_max = grown ? max[row] : state.max[row];
    rescale[row] = Exp2((state.max[row] - new_max) * scale_log2);
    state.sum[row] *= rescale[row];
    state.max[row] = new_max;
    offset[row] = new_max * scale_log2;
    must_rescale = must_rescale | grown;
  }
#pragma unroll
  for (int n = 0; n < kScores / 4; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      scores[4 * n + i] = Exp2(fmaf(scores[4 * n + i], scale_log2, -offset[i / 2]));
    }
    state.sum[0] += scores[4 * n] + scores[4 * n + 1];
    state.sum[1] += scores[4 * n + 2] + scores[4 * n + 3];
  }
  // Sums are never negative, so the comparison does not change the result. It makes the result
  // depend on the exponentials. Otherwise ptxas would schedule them after the wait that they should
  // overlap with.
  must_rescale = must_rescale | (state.sum[0] < 0) | (state.sum[1] < 0);
  return __any_sync(0xFFFFFFFF, must_rescale);
}

template <int kOutputs>
__device__ __forceinline__ void Rescale(float (&output)[kOutputs], const float (&rescale)[2]) {
#pragma unroll
  for (int i = 0; i < kOutputs; ++i) {
    output[i] *= rescale[(i % 4) / 2];
  }
}

// Rounds probabilities and packs them into the left operand of the next product: four registers for
// 16 keys.
template <typename Element, int kScores>
__device__ __forceinline__ void PackScores(const float (&scores)[kScores],
                                           uint32_t (&packed)[kScores / 2]) {
#pragma unroll
  for (int i = 0; i < kScores / 2; ++i) {
    packed[i] = Pack<Element>(scores[2 * i], scores[2 * i + 1]);
  }
}

}  // namespace canopy::kernels

#endif  // KERNELS_ATTENTION_TREE_ATTENTION_SOFTMAX_CUH_
