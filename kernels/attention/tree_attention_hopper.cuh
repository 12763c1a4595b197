// Tree attention with Hopper's warpgroup products and copy engine (TMA).
//
// There is one persistent block per multiprocessor. An item is a query tile with all query heads of
// one kv head. Warp 0 of the first warpgroup is the producer; the other warpgroups are consumers.
// Queries have two buffers, so that an item's queries are copied during the item before. Outputs
// are staged in the buffer of the item's queries.
#ifndef KERNELS_ATTENTION_TREE_ATTENTION_HOPPER_CUH_
#define KERNELS_ATTENTION_TREE_ATTENTION_HOPPER_CUH_

#include <cstdint>

#include "kernels/attention/tree_attention_hopper_consumer.cuh"
#include "kernels/attention/tree_attention_hopper_producer.cuh"
#include "kernels/attention/tree_attention_hopper_tile.cuh"
#include "kernels/primitives/hopper_ptx.cuh"
#include "kernels/primitives/launch.cuh"

namespace canopy::kernels::hopper {

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
    if (warp == 0) {
      Produce<T>(p, shared);
    }
  } else {
    GrowRegisters<T::kConsumerRegisters>();
    Consume<T>(p, shared, warpgroup - 1);
  }
}

}  // namespace canopy::kernels::hopper

#endif  // KERNELS_ATTENTION_TREE_ATTENTION_HOPPER_CUH_
