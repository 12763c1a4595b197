// Builds the lists that tree attention reads. In depth-first order, a key before a query tile is
// read by some of its queries exactly when the key's subtree reaches the tile's first token, and by
// all of them when it reaches the last token. So the smallest and largest exit index of a chunk are
// sufficient.
#include <cstdint>

#include "kernels/attention/tree_attention.h"
#include "kernels/attention/tree_attention_device.cuh"
#include "kernels/primitives/launch.cuh"

namespace canopy::kernels {
namespace {

constexpr int32_t kThreads = 256;
constexpr int32_t kScanThreads = 1024;
constexpr uint32_t kAllLanes = 0xFFFFFFFF;

// Uses one thread per token of the padded exits; 16 neighbouring lanes reduce a chunk.
__global__ void BoundChunks(const int32_t* exit, int32_t num_tokens, VisibilityLists lists) {
  WaitForEarlierKernels();
  const int32_t token = blockIdx.x * kThreads + threadIdx.x;
  if (token < 2) {
    lists.counters[token] = 0;
  }
  const int32_t chunk = token / kKeyChunkTokens;
  const int32_t value = token < num_tokens ? exit[token] : -1;
  int32_t least = value;
  int32_t largest = value;
#pragma unroll
  for (int offset = kKeyChunkTokens / 2; offset > 0; offset /= 2) {
    least = min(least, __shfl_xor_sync(kAllLanes, least, offset));
    largest = max(largest, __shfl_xor_sync(kAllLanes, largest, offset));
  }
  if (chunk > lists.num_chunks) {
    return;
  }
  lists.exits[token] = value;
  if (chunk < lists.num_chunks && token % kKeyChunkTokens == 0) {
    lists.chunk_bounds[chunk] = make_int2(least, largest);
  }
}

// Computes the exclusive running maximum over the chunks in one block; each thread scans
// consecutive chunks.
__global__ void ScanChunks(VisibilityLists lists) {
  WaitForEarlierKernels();
  __shared__ int32_t warp_max[kScanThreads / 32];
  const int32_t lane = threadIdx.x % 32;
  const int32_t warp = threadIdx.x / 32;
  const int32_t run = (lists.num_chunks + kScanThreads - 1) / kScanThreads;
  const int32_t begin = min(static_cast<int32_t>(threadIdx.x) * run, lists.num_chunks);
  const int32_t end = min(begin + run, lists.num_chunks);
  int32_t own = -1;
  for (int32_t chunk = begin; chunk < end; ++chunk) {
    own = max(own, lists.chunk_bounds[chunk].y);
  }
  int32_t inclusive = own;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const int32_t other = __shfl_up_sync(kAllLanes, inclusive, offset);
    if (lane >= offset) {
      inclusive = max(inclusive, other);
    }
  }
  if (lane == 31) {
    warp_max[warp] = inclusive;
  }
  __syncthreads();
  int32_t before = __shfl_up_sync(kAllLanes, inclusive, 1);
  if (lane == 0) {
    before = -1;
  }
  for (int32_t other = 0; other < warp; ++other) {
    before = max(before, warp_max[other]);
  }
  for (int32_t chunk = begin; chunk < end; ++chunk) {
    lists.prefix_max[chunk] = before;
    before = max(before, lists.chunk_bounds[chunk].y);
  }
  if (end == lists.num_chunks) {
    lists.prefix_max[lists.num_chunks] = before;
  }
}

// Returns the first chunk that may have a key whose subtree reaches `token`. Earlier chunks have
// none.
__device__ int32_t FirstReachingChunk(const VisibilityLists& lists, int32_t token, int32_t end) {
  const int32_t lane = threadIdx.x % 32;
  int32_t low = 0;
  int32_t high = end;  // the answer is in low..high
  while (low < high) {
    const int32_t stride = (high - low + 31) / 32;
    const int32_t chunk = low + lane * stride;
    // The condition is monotonic in the lane, because the running maximum does not decrease.
    const bool reaches = chunk >= high || lists.prefix_max[chunk + 1] >= token;
    const uint32_t reaching = __ballot_sync(kAllLanes, reaches);
    const int32_t first = reaching == 0 ? 32 : __ffs(static_cast<int32_t>(reaching)) - 1;
    const int32_t new_high = min(high, low + first * stride);
    low = first == 0 ? low : low + (first - 1) * stride + 1;
    high = new_high;
  }
  return low;
}

struct ChunkClass {
  bool partly = false;
  bool fully = false;
};
__device__ __forceinline__ ChunkClass Classify(const VisibilityLists& lists, int32_t chunk,
                                               int32_t end, int32_t first_token,
                                               int32_t last_token) {
  ChunkClass result;
  if (chunk < end) {
    const int2 bounds = lists.chunk_bounds[chunk];
    result.fully = bounds.x >= last_token;
    result.partly = !result.fully && bounds.y >= first_token;
  }
  return result;
}

// Lists the chunks of one query tile per warp: its own chunks, chunks that some queries read,
// padding, then chunks that all queries read. The own chunks come first so that every row has a
// maximum after the first steps. The padding is in steps that are masked anyway.
__global__ void ListChunks(VisibilityLists lists, int32_t num_tokens, int32_t tile_tokens,
                           int32_t chunks_per_step) {
  WaitForEarlierKernels();
  const int32_t lane = threadIdx.x % 32;
  const int32_t tile = (blockIdx.x * kThreads + threadIdx.x) / 32;
  if (tile >= lists.num_query_tiles) {
    return;
  }
  const int32_t first_token = tile * tile_tokens;
  const int32_t last_token = min(first_token + tile_tokens, num_tokens) - 1;
  const OwnChunks own = OwnChunksOf(tile, tile_tokens, num_tokens);
  const int32_t begin = FirstReachingChunk(lists, first_token, own.first);

  int32_t num_partly = 0;
  int32_t num_fully = 0;
  for (int32_t base = begin; base < own.first; base += 32) {
    const ChunkClass found = Classify(lists, base + lane, own.first, first_token, last_token);
    num_partly += __popc(__ballot_sync(kAllLanes, found.partly));
    num_fully += __popc(__ballot_sync(kAllLanes, found.fully));
  }
  const int32_t num_masked = own.end - own.first + num_partly;
  const int32_t steps = (num_masked + num_fully + chunks_per_step - 1) / chunks_per_step;
  const int32_t fully_at = steps * chunks_per_step - num_fully;
  if (lane == 0) {
    // A wrong max_path_tokens gives wrong results, but must not cause accesses out of bounds.
    lists.headers[tile] = make_int2(min(steps, lists.list_capacity / chunks_per_step),
                                    (fully_at + chunks_per_step - 1) / chunks_per_step);
  }

  int32_t* list = lists.lists + static_cast<int64_t>(tile) * lists.list_capacity;
  const auto put = [&](int32_t position, int32_t chunk) {
    if (position < lists.list_capacity) {
      list[position] = chunk;
    }
  };
  for (int32_t i = lane; i < own.end - own.first; i += 32) {
    put(i, own.first + i);
  }
  for (int32_t i = num_masked + lane; i < fully_at; i += 32) {
    put(i, lists.num_chunks);
  }
  int32_t partly_at = own.end - own.first;
  int32_t next_fully = fully_at;
  const uint32_t lanes_before = (1U << lane) - 1;
  for (int32_t base = begin; base < own.first; base += 32) {
    const ChunkClass found = Classify(lists, base + lane, own.first, first_token, last_token);
    const uint32_t partly = __ballot_sync(kAllLanes, found.partly);
    const uint32_t fully = __ballot_sync(kAllLanes, found.fully);
    if (found.partly) {
      put(partly_at + __popc(partly & lanes_before), base + lane);
    }
    if (found.fully) {
      put(next_fully + __popc(fully & lanes_before), base + lane);
    }
    partly_at += __popc(partly);
    next_fully += __popc(fully);
  }
}

// Each query tile counts the tiles that run before it. Runs in one block.
__global__ void OrderTiles(VisibilityLists lists) {
  WaitForEarlierKernels();
  __shared__ int32_t steps[kMaxSortedTiles];
  const auto tile = static_cast<int32_t>(threadIdx.x);
  if (tile < lists.num_query_tiles) {
    steps[tile] = lists.headers[tile].x;
  }
  __syncthreads();
  if (tile >= lists.num_query_tiles) {
    return;
  }
  int32_t rank = 0;
  for (int32_t other = 0; other < lists.num_query_tiles; ++other) {
    rank += steps[other] > steps[tile] || (steps[other] == steps[tile] && other < tile);
  }
  lists.order[rank] = tile;
}

int32_t BlocksFor(int64_t threads) {
  return static_cast<int32_t>((threads + kThreads - 1) / kThreads);
}

}  // namespace

cudaError_t LaunchTreeVisibility(const TreeVisibilityParams& params, cudaStream_t stream) {
  const TreeAttentionShape& shape = params.shape;
  if (!IsSupported(shape) || shape.max_path_tokens < 1) {
    return cudaErrorInvalidValue;
  }
  const VisibilityLists lists = ListsOf(params.workspace, shape, params.instance);
  const int32_t chunks_per_step = TilingOf(params.instance).key_tile / kKeyChunkTokens;
  const int32_t padded_tokens = (lists.num_chunks + 1) * kKeyChunkTokens;
  const int32_t tile_tokens = QueryTileTokens(shape, params.instance);
  cudaError_t error = LaunchKernel(BoundChunks, {BlocksFor(padded_tokens), kThreads}, stream,
                                   params.exit, shape.num_tokens, lists);
  if (error != cudaSuccess) {
    return error;
  }
  error = LaunchKernel(ScanChunks, {1, kScanThreads}, stream, lists);
  if (error != cudaSuccess) {
    return error;
  }
  error = LaunchKernel(ListChunks, {BlocksFor(int64_t{lists.num_query_tiles} * 32), kThreads},
                       stream, lists, shape.num_tokens, tile_tokens, chunks_per_step);
  if (error != cudaSuccess || !IsSorted(shape, params.instance)) {
    return error;
  }
  return LaunchKernel(OrderTiles, {1, kMaxSortedTiles}, stream, lists);
}

}  // namespace canopy::kernels
