#include "kernels/attention/tree_attention_config.h"

#include <algorithm>
#include <cstdint>

namespace canopy::kernels {
namespace {

constexpr int32_t kRowsPerBlock = 64;
constexpr int32_t kMaxGroup = 8;
// With fewer items per multiprocessor, the last wave costs more than larger tiles gain.
constexpr int64_t kFewItemsPerMultiprocessor = 3;
// From this mean number of visible keys per token on, 80-key steps are faster than 64-key steps.
constexpr int64_t kLongListKeys = 512;

// Precondition: `value` is positive. No intermediate result exceeds `value`, so it cannot overflow.
int32_t CeilDiv(int32_t value, int32_t divisor) { return (value - 1) / divisor + 1; }

int64_t Reserve(int64_t bytes, int64_t* end) {
  constexpr int64_t kAlignment = 128;
  const int64_t begin = *end;
  *end = (begin + bytes + kAlignment - 1) / kAlignment * kAlignment;
  return begin;
}

}  // namespace

bool IsSupported(const TreeAttentionShape& shape) {
  if (shape.data_type == DataType::kFloat32) {
    return false;
  }
  if (shape.head_dim != 64 && shape.head_dim != 128) {
    return false;
  }
  if (shape.num_tokens < 1 || shape.num_kv_heads < 1) {
    return false;
  }
  if (shape.num_query_heads % shape.num_kv_heads != 0) {
    return false;
  }
  const int32_t group = shape.num_query_heads / shape.num_kv_heads;
  return group >= 1 && group <= kMaxGroup;
}

int32_t PaddedGroup(const TreeAttentionShape& shape) {
  const int32_t group = shape.num_query_heads / shape.num_kv_heads;
  int32_t padded = 1;
  while (padded < group) {
    padded *= 2;
  }
  return padded;
}

int32_t QueryTileTokens(const TreeAttentionShape& shape, TreeAttentionInstance instance) {
  return TilingOf(instance).row_blocks * kRowsPerBlock / PaddedGroup(shape);
}

bool IsSorted(const TreeAttentionShape& shape, TreeAttentionInstance instance) {
  return instance != TreeAttentionInstance::kPortable &&
         CeilDiv(shape.num_tokens, QueryTileTokens(shape, instance)) <= kMaxSortedTiles;
}

TreeAttentionInstance ChooseInstance(const TreeAttentionShape& shape, int32_t compute_capability,
                                     int32_t num_multiprocessors) {
  // The Hopper instructions exist only on compute capability 9.0; later devices run the portable
  // form.
  if (compute_capability != 90) {
    return TreeAttentionInstance::kPortable;
  }
  const int64_t items =
      int64_t{
          CeilDiv(shape.num_tokens, QueryTileTokens(shape, TreeAttentionInstance::kHopper2x64))} *
      shape.num_kv_heads;
  if (items < kFewItemsPerMultiprocessor * num_multiprocessors) {
    return TreeAttentionInstance::kHopper2x64;
  }
  return shape.visible_pairs / shape.num_tokens < kLongListKeys
             ? TreeAttentionInstance::kHopper3x64
             : TreeAttentionInstance::kHopper3x80;
}

TreeAttentionWorkspace LayOutWorkspace(const TreeAttentionShape& shape,
                                       TreeAttentionInstance instance) {
  const TreeAttentionTiling tiling = TilingOf(instance);
  const int32_t tile_tokens = QueryTileTokens(shape, instance);
  TreeAttentionWorkspace space;
  space.num_chunks = CeilDiv(shape.num_tokens, kKeyChunkTokens);
  space.num_query_tiles = CeilDiv(shape.num_tokens, tile_tokens);
  // In depth-first order, keys before a tile that one of its queries reads are ancestors of the
  // tile's first token, which occupy at most one chunk each. The list also holds the tile's own
  // chunks and less than a step of padding.
  const int32_t ancestor_chunks = std::min(space.num_chunks, shape.max_path_tokens);
  const int32_t own_chunks = tile_tokens / kKeyChunkTokens + 2;
  const int32_t chunks_per_step = tiling.key_tile / kKeyChunkTokens;
  space.list_capacity = CeilDiv(ancestor_chunks + own_chunks + chunks_per_step, 4) * 4;

  constexpr int64_t kInt = sizeof(int32_t);
  int64_t end = 0;
  space.counters = Reserve(2 * kInt, &end);
  space.exits = Reserve((int64_t{space.num_chunks} + 1) * kKeyChunkTokens * kInt, &end);
  space.chunk_bounds = Reserve(int64_t{space.num_chunks} * 2 * kInt, &end);
  space.prefix_max = Reserve((int64_t{space.num_chunks} + 1) * kInt, &end);
  space.headers = Reserve(int64_t{space.num_query_tiles} * 2 * kInt, &end);
  space.order = Reserve(int64_t{space.num_query_tiles} * kInt, &end);
  space.lists = Reserve(int64_t{space.num_query_tiles} * space.list_capacity * kInt, &end);
  space.total_bytes = end;
  return space;
}

}  // namespace canopy::kernels
