// Which form of the tree-attention kernel runs a forest, how large its tiles are, and how its
// workspace is laid out. Plain host code: no CUDA, and the same answer on every machine.
//
// A query tile is a run of consecutive tokens with all query heads of one kv head; a warpgroup (or
// a portable block) holds 64 rows of it, row = token x padded group + head:
//
//   group 2, rows 0..5:  token 0 head 0 | token 0 head 1 | token 1 head 0 | token 1 head 1 | ...
//
// Keys come in aligned chunks of 16 tokens. A query tile lists the chunks that any of its queries
// sees, and every `key_tile` keys of that list make one step of the kernel.
#ifndef KERNELS_ATTENTION_TREE_ATTENTION_CONFIG_H_
#define KERNELS_ATTENTION_TREE_ATTENTION_CONFIG_H_

#include <cstdint>

#include "kernels/primitives/data_type.h"

namespace canopy::kernels {

inline constexpr int32_t kKeyChunkTokens = 16;

enum class TreeAttentionInstance : int32_t {
  kPortable,    // mma.sync, compute capability 8.0 and newer
  kHopper2x64,  // two consumer warpgroups, 64 keys a step: few query tiles
  kHopper3x64,  // three, 64 keys: many query tiles with short lists
  kHopper3x80,  // three, 80 keys: many query tiles with long lists
};

struct TreeAttentionTiling {
  int32_t row_blocks;  // blocks of 64 rows in a query tile: warpgroups, or 1 for portable
  int32_t key_tile;    // keys a step
};

// Measured on one H200 (2026-11-29): 2 x 64 is best below three items a multiprocessor, where
// smaller query tiles balance better; 3 x 80 executes faster than 3 x 64 but pads short lists more.
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

// At most this many query tiles are run longest first: with few waves of blocks that gains up to a
// third, with many it only costs locality in the L2 cache.
inline constexpr int32_t kMaxSortedTiles = 512;

// What the host knows of a forest and its heads.
struct TreeAttentionShape {
  int32_t num_tokens = 0;
  int32_t num_query_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t max_path_tokens = 0;  // longest root-to-leaf path, or more; sizes the lists
  int64_t visible_pairs = 0;    // sum over tokens of depth + 1; only chooses the instance
  DataType data_type = DataType::kBFloat16;
};

// bfloat16 or float16; head dim 64 or 128; 1 to 8 query heads a kv head; at least one token.
bool IsSupported(const TreeAttentionShape& shape);

// `compute_capability` and `num_multiprocessors` as in DeviceInfo. The shape must be supported.
TreeAttentionInstance ChooseInstance(const TreeAttentionShape& shape, int32_t compute_capability,
                                     int32_t num_multiprocessors);

// Rounded up to a power of two, so that rows of a token never straddle two row blocks.
int32_t PaddedGroup(const TreeAttentionShape& shape);
int32_t QueryTileTokens(const TreeAttentionShape& shape, TreeAttentionInstance instance);

// Whether query tiles are run longest first. The portable form never is.
bool IsSorted(const TreeAttentionShape& shape, TreeAttentionInstance instance);

// Byte offsets of the workspace's parts, each a multiple of 128.
struct TreeAttentionWorkspace {
  int32_t num_chunks = 0;
  int32_t num_query_tiles = 0;
  int32_t list_capacity = 0;  // chunks a query tile
  int64_t counters = 0;       // [2] int32: next item, finished blocks; zero between launches
  int64_t exits = 0;          // [16 x (num_chunks + 1)] int32: exit indices, -1 past the last token
  int64_t chunk_bounds = 0;   // [num_chunks] int32 x 2: least and largest exit index of a chunk
  int64_t prefix_max = 0;     // [num_chunks + 1] int32: largest exit index of all chunks before
  int64_t headers = 0;        // [num_query_tiles] int32 x 2: steps, and how many are masked
  int64_t order = 0;          // [num_query_tiles] int32: query tiles, longest first
  int64_t lists = 0;          // [num_query_tiles, list_capacity] int32: chunk indices
  int64_t total_bytes = 0;
};
TreeAttentionWorkspace LayOutWorkspace(const TreeAttentionShape& shape,
                                       TreeAttentionInstance instance);

}  // namespace canopy::kernels

#endif  // KERNELS_ATTENTION_TREE_ATTENTION_CONFIG_H_
