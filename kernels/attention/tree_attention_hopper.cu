#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>

#include "kernels/attention/tree_attention_hopper.cuh"
#include "kernels/attention/tree_attention_hopper.h"
#include "kernels/primitives/launch.cuh"
#include "kernels/primitives/tensor_map.h"

namespace canopy::kernels {
namespace {

using hopper::Params;
using hopper::Tile;

// Returns the map of queries or outputs. A box holds the 64 rows of a warpgroup; padded heads are
// out of bounds.
MapShape RowsMap(const TreeAttentionShape& shape, const HeadStrides& strides) {
  const uint64_t group = shape.num_query_heads / shape.num_kv_heads;
  const uint32_t padded = PaddedGroup(shape);
  const uint32_t halves = shape.head_dim / 64;
  MapShape map;
  map.rank = 5;
  const uint64_t sizes[] = {64, group, static_cast<uint64_t>(shape.num_tokens), halves,
                            static_cast<uint64_t>(shape.num_kv_heads)};
  const uint64_t steps[] = {static_cast<uint64_t>(strides.head),
                            static_cast<uint64_t>(strides.token), 64, group * strides.head};
  const uint32_t box[] = {64, padded, hopper::kRows / padded, halves, 1};
  std::copy_n(sizes, 5, map.sizes);
  std::copy_n(steps, 4, map.strides);
  std::copy_n(box, 5, map.box);
  return map;
}

// Returns the map of keys or values in whole groups of 8 tokens, with `groups` groups per box.
MapShape GroupsMap(const TreeAttentionShape& shape, const HeadStrides& strides, uint32_t groups) {
  const uint32_t halves = shape.head_dim / 64;
  MapShape map;
  map.rank = 5;
  const uint64_t sizes[] = {64, 8, halves, static_cast<uint64_t>(std::max(1, shape.num_tokens / 8)),
                            static_cast<uint64_t>(shape.num_kv_heads)};
  const uint64_t steps[] = {static_cast<uint64_t>(strides.token), 64,
                            static_cast<uint64_t>(8 * strides.token),
                            static_cast<uint64_t>(strides.head)};
  const uint32_t box[] = {64, 8, halves, groups, 1};
  std::copy_n(sizes, 5, map.sizes);
  std::copy_n(steps, 4, map.strides);
  std::copy_n(box, 5, map.box);
  return map;
}

// Returns the map of keys or values token by token, 8 per box. It ends at the last token.
MapShape TailMap(const TreeAttentionShape& shape, const HeadStrides& strides) {
  const uint32_t halves = shape.head_dim / 64;
  MapShape map;
  map.rank = 4;
  const uint64_t sizes[] = {64, static_cast<uint64_t>(shape.num_tokens), halves,
                            static_cast<uint64_t>(shape.num_kv_heads)};
  const uint64_t steps[] = {static_cast<uint64_t>(strides.token), 64,
                            static_cast<uint64_t>(strides.head)};
  const uint32_t box[] = {64, 8, halves, 1};
  std::copy_n(sizes, 4, map.sizes);
  std::copy_n(steps, 3, map.strides);
  std::copy_n(box, 4, map.box);
  return map;
}

cudaError_t EncodeMaps(const TreeAttentionParams& params, Params* p) {
  const TreeAttentionShape& shape = params.shape;
  constexpr uint32_t kGroupsOfChunk = kKeyChunkTokens / 8;
  const uint32_t groups_of_step = TilingOf(params.instance).key_tile / 8;
  const struct {
    const void* data;
    MapShape map_shape;
    CUtensorMap* map;
  } maps[] = {{params.q, RowsMap(shape, params.q_strides), &p->q},
              {params.out, RowsMap(shape, params.out_strides), &p->out},
              {params.k, GroupsMap(shape, params.k_strides, kGroupsOfChunk), &p->k},
              {params.v, GroupsMap(shape, params.v_strides, kGroupsOfChunk), &p->v},
              {params.k, GroupsMap(shape, params.k_strides, groups_of_step), &p->k_step},
              {params.v, GroupsMap(shape, params.v_strides, groups_of_step), &p->v_step},
              {params.k, TailMap(shape, params.k_strides), &p->k_tail},
              {params.v, TailMap(shape, params.v_strides), &p->v_tail}};
  for (const auto& item : maps) {
    const cudaError_t error = EncodeTensorMap(item.data, shape.data_type, item.map_shape, item.map);
    if (error != cudaSuccess) {
      return error;
    }
  }
  return cudaSuccess;
}

template <typename T>
struct Run {
  static cudaError_t Init() {
    return cudaFuncSetAttribute(hopper::TreeAttentionKernel<T>,
                                cudaFuncAttributeMaxDynamicSharedMemorySize, T::kSharedBytes);
  }
  static cudaError_t Launch(const Params& p, int32_t blocks, cudaStream_t stream) {
    return LaunchKernel(hopper::TreeAttentionKernel<T>, {blocks, T::kThreads, T::kSharedBytes},
                        stream, p);
  }
};

// Calls `visit` with the Run of the given instance, head dim and element type.
template <int kRowBlocks, int kKeyTile, typename Visit>
cudaError_t DispatchShape(int32_t head_dim, DataType type, Visit visit) {
  if (head_dim == 128) {
    return type == DataType::kFloat16
               ? visit(Run<Tile<kRowBlocks, kKeyTile, 128, __half>>())
               : visit(Run<Tile<kRowBlocks, kKeyTile, 128, __nv_bfloat16>>());
  }
  return type == DataType::kFloat16 ? visit(Run<Tile<kRowBlocks, kKeyTile, 64, __half>>())
                                    : visit(Run<Tile<kRowBlocks, kKeyTile, 64, __nv_bfloat16>>());
}

template <typename Visit>
cudaError_t Dispatch(TreeAttentionInstance instance, int32_t head_dim, DataType type, Visit visit) {
  switch (instance) {
    case TreeAttentionInstance::kHopper2x64:
      return DispatchShape<2, 64>(head_dim, type, visit);
    case TreeAttentionInstance::kHopper3x64:
      return DispatchShape<3, 64>(head_dim, type, visit);
    case TreeAttentionInstance::kHopper3x80:
      return DispatchShape<3, 80>(head_dim, type, visit);
    case TreeAttentionInstance::kPortable:
      break;
  }
  return cudaErrorNotSupported;
}

}  // namespace

cudaError_t InitTreeAttentionHopper() {
  for (const auto instance :
       {TreeAttentionInstance::kHopper2x64, TreeAttentionInstance::kHopper3x64,
        TreeAttentionInstance::kHopper3x80}) {
    for (const int32_t head_dim : {64, 128}) {
      for (const DataType type : {DataType::kBFloat16, DataType::kFloat16}) {
        const cudaError_t error =
            Dispatch(instance, head_dim, type, [](auto run) { return run.Init(); });
        if (error != cudaSuccess) {
          return error;
        }
      }
    }
  }
  return cudaSuccess;
}

cudaError_t LaunchTreeAttentionHopper(const TreeAttentionParams& params, cudaStream_t stream) {
  const TreeAttentionShape& shape = params.shape;
  Params p;
  const cudaError_t error = EncodeMaps(params, &p);
  if (error != cudaSuccess) {
    return error;
  }
  p.lists = ListsOf(params.workspace, shape, params.instance);
  p.log_sum_exp = params.log_sum_exp;
  p.num_tokens = shape.num_tokens;
  p.num_kv_heads = shape.num_kv_heads;
  p.group = shape.num_query_heads / shape.num_kv_heads;
  p.log2_padded_group = 0;
  while ((1 << p.log2_padded_group) < p.group) {
    ++p.log2_padded_group;
  }
  p.tile_tokens = QueryTileTokens(shape, params.instance);
  p.tail_chunk = shape.num_tokens % 8 != 0 ? shape.num_tokens / kKeyChunkTokens : -1;
  p.longest_first = IsSorted(shape, params.instance);
  p.scale = params.scale;
  const int64_t items = int64_t{p.lists.num_query_tiles} * p.num_kv_heads;
  const auto blocks = static_cast<int32_t>(std::min<int64_t>(items, params.num_multiprocessors));
  return Dispatch(params.instance, shape.head_dim, shape.data_type,
                  [&](auto run) { return run.Launch(p, blocks, stream); });
}

}  // namespace canopy::kernels
