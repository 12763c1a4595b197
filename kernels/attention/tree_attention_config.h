// Chooses the instance of the tree-attention kernel for a forest, the size of its tiles and the
// layout of its workspace. This is plain host code without CUDA, and gives the same results on
// every machine.
//
// A query tile consists of consecutive tokens with all query heads of one kv head. A warpgroup (or
// a portable block) processes 64 rows of it, row = token x padded group + head:
//
//   group 2, rows 0..5:  token 0 head 0 | token 0 head 1 | token 1 head 0 | token 1 head 1 | ...
//
// Keys are grouped into aligned chunks of 16 tokens. Each query tile lists the chunks that at least
// one of its queries reads. One step of the kernel processes `key_tile` keys of that list.
#ifndef KERNELS_ATTENTION_TREE_ATTENTION_CONFIG_H_
#define KERNELS_ATTENTION_TREE_ATTENTION_CONFIG_H_

#include <cstdint>

#include "kernels/primitives/data_type.h"

namespace canopy::kernels {

inline constexpr int32_t kKeyChunkTokens = 16;

enum class TreeAttentionInstance : int32_t {
  kPortable,    // mma.sync, compute capability 8.0 and newer
  kHopper2x64,  // two consumer warpgroups, 64 keys per step: for few query tiles
  // three consumer warpgroups, 64 keys per step: for many query tiles with short lists
  kHopper3x64,
  kHopper3x80,  // three consumer warpgroups, 80 keys per step: for many query tiles with long lists
};

struct TreeAttentionTiling {
  int32_t row_blocks;  // blocks of 64 rows per query tile: number of warpgroups, or 1 for portable
  int32_t key_tile;    // keys per step
};

// Measured on one H200 (2026-11-29): 2 x 64 is best below three items per multiprocessor, where
// smaller query tiles balance better. 3 x 80 runs faster than 3 x 64, but pads short lists more.
constexpr TreeAttentionTiling TilingOf(TreeAttentionInstance instance) {
  switch (instance) {
    case TreeAttentionInstance::kHopper2x64:
      return {2, 64};
    case TreeAttentionInstance::kHopper3x64:
      return {3, 64};
    case TreeAttentionInstance::kHopper3x80:
      return {3, 80};
    case TreeAttentionInstance::kPortable:
      break;
  }
  return {1, 64};
}

// If there are at most this many query tiles, they run longest first. With few waves of blocks this
// gains up to a third; with many waves it only reduces locality in the L2 cache.
inline constexpr int32_t kMaxSortedTiles = 512;

// The sizes of a forest and its heads.
struct TreeAttentionShape {
  int32_t num_tokens = 0;
  int32_t num_query_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  // tokens of the longest root-to-leaf path, or an upper bound; sizes the lists
  int32_t max_path_tokens = 0;
  int64_t visible_pairs = 0;  // sum over tokens of depth + 1; only used to choose the instance
  DataType data_type = DataType::kBFloat16;
};

// Returns true for bfloat16 or float16, head dim 64 or 128, 1 to 8 query heads per kv head, and at
// least one token.
bool IsSupported(const TreeAttentionShape& shape);

// `compute_capability` and `num_multiprocessors` are those of DeviceInfo. Precondition: the shape
// is supported.
TreeAttentionInstance ChooseInstance(const TreeAttentionShape& shape, int32_t compute_capability,
                                     int32_t num_multiprocessors);

// Returns the query heads per kv head, rounded up to a power of two, so that the rows of a token
// are always in one row block.
int32_t PaddedGroup(const TreeAttentionShape& shape);
int32_t QueryTileTokens(const TreeAttentionShape& shape, TreeAttentionInstance instance);

// Returns true if query tiles run longest first. The portable form never sorts them.
bool IsSorted(const TreeAttentionShape& shape, TreeAttentionInstance instance);

// The byte offsets of the workspace's parts. Each is a multiple of 128.
struct TreeAttentionWorkspace {
  int32_t num_chunks = 0;
  int32_t num_query_tiles = 0;
  int32_t list_capacity = 0;  // chunks per query tile
  int64_t counters = 0;       // [2] int32: next item, finished blocks; zero between launches
  int64_t exits = 0;         // [16 x (num_chunks + 1)] int32: exit indices, -1 after the last token
  int64_t chunk_bounds = 0;  // [num_chunks] int32 x 2: smallest and largest exit index of a chunk
  int64_t prefix_max = 0;    // [num_chunks + 1] int32: largest exit index of all earlier chunks
  int64_t headers = 0;       // [num_query_tiles] int32 x 2: number of steps, number of masked steps
  int64_t order = 0;         // [num_query_tiles] int32: query tiles, longest first
  int64_t lists = 0;         // [num_query_tiles, list_capacity] int32: chunk indices
  int64_t total_bytes = 0;
};
TreeAttentionWorkspace LayOutWorkspace(const TreeAttentionShape& shape,
                                       TreeAttentionInstance instance);

}  // namespace canopy::kernels

#endif  // KERNELS_ATTENTION_TREE_ATTENTION_CONFIG_H_
