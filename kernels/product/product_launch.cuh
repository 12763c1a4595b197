// Launches a ProductKernel from the host.
#ifndef KERNELS_PRODUCT_PRODUCT_LAUNCH_CUH_
#define KERNELS_PRODUCT_PRODUCT_LAUNCH_CUH_

#include <algorithm>
#include <cstdint>

#include "kernels/primitives/data_type.h"
#include "kernels/primitives/launch.cuh"
#include "kernels/primitives/tensor_map.h"
#include "kernels/product/product_hopper.cuh"

namespace canopy::kernels::hopper {

struct ProductArrays {
  const void* rows = nullptr;    // [num_rows, inner]
  const void* weight = nullptr;  // [num_weights, inner]
  void* out = nullptr;           // [num_rows, columns], or null if the epilogue stores nothing
  int32_t num_rows = 0;          // all sizes are > 0
  int32_t inner = 0;
  int32_t num_weights = 0;
  int32_t columns = 0;
  int32_t halves_apart = 0;  // see ProductParams
  DataType data_type = DataType::kBFloat16;
};

inline MapShape MatrixMap(int32_t columns, int32_t rows, uint32_t box_rows) {
  MapShape map;
  map.rank = 2;
  map.sizes[0] = static_cast<uint64_t>(columns);
  map.sizes[1] = static_cast<uint64_t>(rows);
  map.strides[0] = static_cast<uint64_t>(columns);
  map.box[0] = 64;
  map.box[1] = box_rows;
  return map;
}

// The common part of the products' launches. Checks the sizes in `params`, copies them to `arrays`
// and, if there are rows, calls `launch(arrays)`, which adds the parameters of the specific
// product.
template <typename Params, typename LaunchArrays>
cudaError_t LaunchRows(const Params& params, bool own_sizes_are_valid, LaunchArrays launch) {
  if (!own_sizes_are_valid || params.num_rows < 0 || params.inner < 1 || params.inner % 8 != 0) {
    return cudaErrorInvalidValue;
  }
  if (params.data_type == DataType::kFloat32) {
    return cudaErrorNotSupported;
  }
  if (params.num_rows == 0) {
    return cudaSuccess;
  }
  ProductArrays arrays;
  arrays.rows = params.rows;
  arrays.weight = params.weight;
  arrays.num_rows = params.num_rows;
  arrays.inner = params.inner;
  arrays.data_type = params.data_type;
  return launch(arrays);
}

inline bool IsTileWeights(int32_t tile_weights) {
  return tile_weights == 0 || tile_weights == 128 || tile_weights == 256;
}

template <typename Tile>
cudaError_t EncodeMaps(const ProductArrays& arrays, ProductParams* p) {
  const struct {
    const void* data;
    MapShape shape;
    CUtensorMap* map;
  } maps[] = {
      {arrays.rows, MatrixMap(arrays.inner, arrays.num_rows, Tile::kBoxRows), &p->rows},
      {arrays.weight, MatrixMap(arrays.inner, arrays.num_weights, Tile::kWeightBoxRows),
       &p->weight},
      {arrays.out, MatrixMap(arrays.columns, arrays.num_rows, Tile::kWarpgroupRows), &p->out}};
  for (const auto& item : maps) {
    if (item.data == nullptr) {
      continue;
    }
    const cudaError_t error = EncodeTensorMap(item.data, arrays.data_type, item.shape, item.map);
    if (error != cudaSuccess) {
      return error;
    }
  }
  return cudaSuccess;
}

// Returns how many of `tiles` stay wide if they run on `clusters` clusters. The tiles after the
// last full round are halved if the halves fit in one round, which then takes half as long.
inline int64_t WideTiles(int64_t tiles, int64_t clusters, int32_t tile_weights) {
  if (tile_weights != 0) {
    return tile_weights == 256 ? tiles : 0;
  }
  const int64_t rest = tiles % clusters;
  return 2 * rest <= clusters ? tiles - rest : tiles;
}

// The kernels for one epilogue and element type. `TileOf<N>` is the tile of N weights.
// Epilogue::OutColumns<T> returns the number of output columns per tile.
template <template <int> typename TileOf, typename Epilogue>
struct Product {
  using Mixed = ProductTiles<TileOf<256>, TileOf<128>>;
  // A launch with only narrow tiles has more stages.
  using Narrow = ProductTiles<TileOf<128>, TileOf<128>>;

  // Call it once per device.
  static cudaError_t Init() {
    const cudaError_t error = InitTiles<Mixed>();
    return error == cudaSuccess ? InitTiles<Narrow>() : error;
  }

  // `tile_weights` is 128 or 256; 0 = choose the one expected to be faster.
  static cudaError_t Launch(const ProductArrays& arrays, const Epilogue& epilogue,
                            int32_t tile_weights, int32_t num_multiprocessors,
                            cudaStream_t stream) {
    using Wide = TileOf<256>;
    constexpr int32_t kPairRows = Wide::kClusterBlocks * Wide::kRows;
    constexpr int32_t kColumns = Epilogue::template OutColumns<Wide>();
    ProductParams p;
    const cudaError_t error = EncodeMaps<Wide>(arrays, &p);
    if (error != cudaSuccess) {
      return error;
    }
    p.num_rows = arrays.num_rows;
    p.row_pairs = (arrays.num_rows - 1) / kPairRows + 1;
    p.column_tiles = (arrays.columns - 1) / kColumns + 1;
    p.steps = (arrays.inner - 1) / Wide::kStep + 1;
    p.halves_apart = arrays.halves_apart;
    const int64_t all = int64_t{p.row_pairs} * p.column_tiles;
    const int64_t clusters = std::max(1, num_multiprocessors / Wide::kClusterBlocks);
    const int64_t wide = WideTiles(all, clusters, tile_weights);
    const int64_t tiles = wide + 2 * (all - wide);
    if (tiles > INT32_MAX) {
      return cudaErrorInvalidValue;
    }
    p.wide_tiles = static_cast<int32_t>(wide);
    p.tiles = static_cast<int32_t>(tiles);
    const auto blocks = static_cast<int32_t>(std::min(tiles, clusters)) * Wide::kClusterBlocks;
    return wide > 0 ? LaunchTiles<Mixed>(p, epilogue, blocks, stream)
                    : LaunchTiles<Narrow>(p, epilogue, blocks, stream);
  }

 private:
  template <typename Tiles>
  static cudaError_t InitTiles() {
    return cudaFuncSetAttribute(ProductKernel<Tiles, Epilogue>,
                                cudaFuncAttributeMaxDynamicSharedMemorySize, Tiles::kSharedBytes);
  }
  template <typename Tiles>
  static cudaError_t LaunchTiles(const ProductParams& p, const Epilogue& epilogue, int32_t blocks,
                                 cudaStream_t stream) {
    using Wide = typename Tiles::Wide;
    return LaunchKernel(ProductKernel<Tiles, Epilogue>,
                        {blocks, Wide::kThreads, Tiles::kSharedBytes, Wide::kClusterBlocks}, stream,
                        p, epilogue);
  }
};

}  // namespace canopy::kernels::hopper

#endif  // KERNELS_PRODUCT_PRODUCT_LAUNCH_CUH_
