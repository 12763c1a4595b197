// rows x weight^T with Hopper's warpgroup products and copy engine, and an epilogue that sees the
// float32 sums.
//
// Two blocks of a cluster compute two tiles of 128 rows with the same weights. Each copies its own
// rows, and half of the weights for both. A consumer warpgroup takes 64 rows of a tile. The two
// warpgroups drift apart by a few steps, so that one is in its epilogue while the other keeps the
// tensor cores busy.
#ifndef KERNELS_PRODUCT_HOPPER_CUH_
#define KERNELS_PRODUCT_HOPPER_CUH_

#include <cuda.h>

#include <algorithm>
#include <cstdint>

#include "kernels/hopper_ptx.cuh"
#include "kernels/launch.cuh"
#include "kernels/ring.cuh"
#include "kernels/tensor_map.h"
#include "kernels/vector_io.cuh"

namespace canopy::kernels::hopper {

// kSumColumns: weights of a tile, 128 or 256. kStagedColumns: columns of the output that a
// warpgroup hands to the copy engine at a time.
template <int kSumColumnsOfTile, int kStagedColumnsOfTile, typename ElementType>
struct ProductTile {
  using Element = ElementType;
  static constexpr int kSumColumns = kSumColumnsOfTile;
  static constexpr int kStagedColumns = kStagedColumnsOfTile;
  static constexpr int kSums = kSumColumns / 2;  // of a thread
  static constexpr int kWarpgroupRows = 64;
  static constexpr int kConsumers = 2;
  static constexpr int kRows = kConsumers * kWarpgroupRows;
  static constexpr int kStep = 64;  // summed a step: 128 bytes, the width of the swizzle
  static constexpr int kThreads = (kConsumers + 1) * 128;
  static constexpr int kClusterBlocks = 2;

  static constexpr int kRowBytes = kStep * 2;
  // Boxes beyond the last row are not copied: filling them with zeros takes longer than copying.
  static constexpr int kBoxRows = 32;
  static constexpr int kBoxBytes = kBoxRows * kRowBytes;
  static constexpr int kRowsBytes = kRows * kRowBytes;
  static constexpr int kWeightBytes = kSumColumns / 2 * kRowBytes;  // that one block copies
  static constexpr int kStageBytes = kRowsBytes + 2 * kWeightBytes;
  static constexpr int kOutBoxBytes = kWarpgroupRows * 128;                 // 64 columns
  static constexpr int kStagingBytes = kStagedColumns / 64 * kOutBoxBytes;  // of a warpgroup
  static constexpr int kAlignment = 1024;                                   // of the swizzle
  static constexpr int kBarrierBytes = 256;
  static constexpr int kMaxShared = 227 * 1024;
  static constexpr int kStages =
      (kMaxShared - kAlignment - kBarrierBytes - kConsumers * kStagingBytes) / kStageBytes;
  static_assert(kStages >= 4, "too little to copy ahead");
  static constexpr int kSharedBytes =
      kAlignment + kBarrierBytes + kConsumers * kStagingBytes + kStages * kStageBytes;
};

struct ProductParams {
  CUtensorMap rows;    // [inner, rows], boxes of 64 x kBoxRows
  CUtensorMap weight;  // [inner, weights], boxes of 64 x kSumColumns / 2
  CUtensorMap out;     // [columns, rows], boxes of 64 x 64
  int32_t num_rows;
  int32_t row_pairs;  // tiles of two blocks
  int32_t column_tiles;
  int32_t steps;
  int32_t tile_weights;   // weights from a tile to the next
  int32_t block_weights;  // weights from those that block 0 copies to those of block 1
};

struct TilePlace {
  int32_t first_row;  // of this block's tile
  int32_t column_tile;

  // Neighbouring clusters share rows and weights in the L2 cache: tiles go down a band of row
  // pairs, then to the next columns.
  template <typename T>
  static __device__ __forceinline__ TilePlace Of(const ProductParams& p, int32_t index,
                                                 int32_t rank) {
    constexpr int32_t kBand = 8;
    const int32_t band_tiles = kBand * p.column_tiles;
    const int32_t band = index / band_tiles;
    const int32_t in_band = index - band * band_tiles;
    const int32_t pairs = min(kBand, p.row_pairs - band * kBand);
    const int32_t column_tile = in_band / pairs;
    const int32_t pair = band * kBand + in_band - column_tile * pairs;
    return {(pair * T::kClusterBlocks + rank) * T::kRows, column_tile};
  }
};

template <typename T>
struct ProductShared {
  uint32_t rows;         // [stage]
  uint32_t weights;      // [stage], block 0's half first
  uint32_t staging;      // [consumer][64 columns]
  uint32_t full, empty;  // [stage]

  __device__ explicit ProductShared(uint32_t raw) {
    rows = (raw + T::kAlignment - 1) / T::kAlignment * T::kAlignment;
    weights = rows + T::kStages * T::kRowsBytes;
    staging = weights + T::kStages * 2 * T::kWeightBytes;
    full = staging + T::kConsumers * T::kStagingBytes;
    empty = full + 8 * T::kStages;
  }
};

// Runs on one thread.
template <typename T>
__device__ __forceinline__ void ProduceTiles(const ProductParams& p,
                                             const ProductShared<T>& shared) {
  const auto rank = static_cast<int32_t>(ClusterRank());
  const int32_t tiles = p.row_pairs * p.column_tiles;
  constexpr uint16_t kBothBlocks = 3;
  Ring<T::kStages> ring;
  for (int32_t tile = blockIdx.x / T::kClusterBlocks; tile < tiles;
       tile += gridDim.x / T::kClusterBlocks) {
    const auto place = TilePlace::Of<T>(p, tile, rank);
    const int32_t rows = max(0, min(T::kRows, p.num_rows - place.first_row));
    const int32_t boxes = (rows + T::kBoxRows - 1) / T::kBoxRows;
    const int32_t first_weight = place.column_tile * p.tile_weights + rank * p.block_weights;
    for (int32_t step = 0; step < p.steps; ++step) {
      const uint32_t full = shared.full + 8 * ring.index;
      // Both blocks are done with the stage: half of the weights goes to both.
      Wait(shared.empty + 8 * ring.index, ring.parity ^ 1);
      ArriveExpect(full, boxes * T::kBoxBytes + 2 * T::kWeightBytes);
      LoadBox2ToBlocks(shared.weights + (2 * ring.index + rank) * T::kWeightBytes, p.weight, full,
                       step * T::kStep, first_weight, kBothBlocks);
      for (int32_t box = 0; box < boxes; ++box) {
        LoadBox2(shared.rows + ring.index * T::kRowsBytes + box * T::kBoxBytes, p.rows, full,
                 step * T::kStep, place.first_row + box * T::kBoxRows);
      }
      ring.Advance();
    }
  }
}

// Tells both producers that this warp is done with a stage.
__device__ __forceinline__ void ArriveWarpAtBoth(uint32_t barrier) {
  const uint32_t lane = threadIdx.x % 32;
  if (lane < 2) {
    ArriveAt(barrier, lane);
  }
}

// sums[64 x kSumColumns] = rows x weight^T. Thread t holds, of row t / 32 * 16 + t % 32 / 4,
// columns 8 j + 2 (t % 4) and the next in sums[4 j] and the next, and of the row 8 further down in
// the two that follow.
template <typename T>
__device__ __forceinline__ void SumTile(float (&sums)[T::kSums], const ProductParams& p,
                                        const ProductShared<T>& shared, int32_t consumer,
                                        Ring<T::kStages>& ring) {
  int32_t last = 0;
  for (int32_t step = 0; step < p.steps; ++step) {
    Wait(shared.full + 8 * ring.index, ring.parity);
    const OperandDescriptor a(
        shared.rows + ring.index * T::kRowsBytes + consumer * T::kWarpgroupRows * T::kRowBytes, 0,
        8 * T::kRowBytes);
    const OperandDescriptor b(shared.weights + 2 * ring.index * T::kWeightBytes, 0,
                              8 * T::kRowBytes);
    Pin(sums);
    FenceProducts();
#pragma unroll
    for (int i = 0; i < T::kStep / 16; ++i) {
      SharedProduct<typename T::Element>(sums, a.At(32 * i), b.At(32 * i), step > 0 || i > 0);
    }
    CommitProducts();
    // The step before is finished; this one runs on.
    WaitProducts<1>();
    if (step > 0) {
      ArriveWarpAtBoth(shared.empty + 8 * last);
    }
    last = ring.index;
    ring.Advance();
  }
  WaitProducts<0>();
  Pin(sums);
  ArriveWarpAtBoth(shared.empty + 8 * last);
}

// Rounds and stores kStagedColumns columns. `values` is laid out as sums are. Runs on all threads
// of a warpgroup.
template <typename T>
__device__ __forceinline__ void StoreColumns(const float* values, const CUtensorMap& out,
                                             uint32_t staging, int32_t consumer, int32_t first_row,
                                             int32_t first_column) {
  using Element = typename T::Element;
  const int32_t thread = threadIdx.x % 128;
  const int32_t lane = thread % 32;
  const int32_t row = thread / 32 * 16 + (lane / 8 % 2) * 8 + lane % 8;
  // The staging's last content is on its way.
  if (thread == 0) {
    WaitStoresRead();
  }
  SyncNamed(1 + consumer, 128);
#pragma unroll
  for (int i = 0; i < T::kStagedColumns / 16; ++i) {
    const float* v = values + 8 * i;
    const int32_t column16 = 2 * i + lane / 16;  // in units of 16 bytes
    StoreMatrices(
        staging + column16 / 8 * T::kOutBoxBytes + row * 128 + ((column16 % 8) ^ (lane % 8)) * 16,
        PackPair<Element>(v[0], v[1]), PackPair<Element>(v[2], v[3]), PackPair<Element>(v[4], v[5]),
        PackPair<Element>(v[6], v[7]));
  }
  FenceAsyncProxy();
  SyncNamed(1 + consumer, 128);
  if (thread == 0) {
#pragma unroll
    for (int box = 0; box < T::kStagedColumns / 64; ++box) {
      StoreBox2(staging + box * T::kOutBoxBytes, out, first_column + 64 * box, first_row);
    }
  }
}

// Runs on all threads of one warpgroup.
template <typename T, typename Epilogue>
__device__ __forceinline__ void ConsumeTiles(const ProductParams& p, const Epilogue& epilogue,
                                             const ProductShared<T>& shared, int32_t consumer) {
  const auto rank = static_cast<int32_t>(ClusterRank());
  const int32_t tiles = p.row_pairs * p.column_tiles;
  const uint32_t staging = shared.staging + consumer * T::kStagingBytes;
  Ring<T::kStages> ring;
  for (int32_t tile = blockIdx.x / T::kClusterBlocks; tile < tiles;
       tile += gridDim.x / T::kClusterBlocks) {
    float sums[T::kSums];
    SumTile<T>(sums, p, shared, consumer, ring);
    const auto place = TilePlace::Of<T>(p, tile, rank);
    const int32_t first_row = place.first_row + consumer * T::kWarpgroupRows;
    epilogue.template Apply<T>(
        sums, first_row, place.column_tile, [&](const float* values, int32_t first_column) {
          StoreColumns<T>(values, p.out, staging, consumer, first_row, first_column);
        });
  }
  // Shared memory must outlive the last store.
  if (threadIdx.x % 128 == 0) {
    WaitStoresRead();
  }
}

template <typename T, typename Epilogue>
__global__ void __launch_bounds__(T::kThreads, 1)
    ProductKernel(const __grid_constant__ ProductParams p,
                  const __grid_constant__ Epilogue epilogue) {
  extern __shared__ char raw[];
  const ProductShared<T> shared(SharedAddress(raw));
  if (threadIdx.x == 0) {
    constexpr uint32_t kConsumerWarps = T::kClusterBlocks * T::kConsumers * 4;
    for (int i = 0; i < T::kStages; ++i) {
      InitBarrier(shared.full + 8 * i, 1);
      InitBarrier(shared.empty + 8 * i, kConsumerWarps);
    }
    FenceBarrierInit();
  }
  // Before a block copies into the other.
  SyncCluster();
  WaitForEarlierKernels();
  const int32_t warpgroup = __shfl_sync(0xFFFFFFFF, static_cast<int32_t>(threadIdx.x) / 128, 0);
  if (warpgroup == 0) {
    ShrinkRegisters<40>();
    if (threadIdx.x == 0) {
      ProduceTiles<T>(p, shared);
    }
  } else {
    GrowRegisters<232>();
    ConsumeTiles<T>(p, epilogue, shared, warpgroup - 1);
  }
  // Nor may a block end before the other has told it of its last stages.
  SyncCluster();
}

// A product as the host sees it.
struct ProductArrays {
  const void* rows = nullptr;
  const void* weight = nullptr;
  void* out = nullptr;
  int32_t num_rows = 0;
  int32_t inner = 0;
  int32_t num_weights = 0;
  int32_t out_columns = 0;
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

template <typename T, typename Epilogue>
cudaError_t InitProduct() {
  return cudaFuncSetAttribute(ProductKernel<T, Epilogue>,
                              cudaFuncAttributeMaxDynamicSharedMemorySize, T::kSharedBytes);
}

// Tile `i` takes weights from `tile_weights` x i on, and as many from `block_weights` further on.
template <typename T, typename Epilogue>
cudaError_t LaunchProduct(const ProductArrays& arrays, const Epilogue& epilogue,
                          int32_t column_tiles, int32_t tile_weights, int32_t block_weights,
                          int32_t num_multiprocessors, cudaStream_t stream) {
  ProductParams p;
  const struct {
    const void* data;
    MapShape shape;
    CUtensorMap* map;
  } maps[] = {
      {arrays.rows, MatrixMap(arrays.inner, arrays.num_rows, T::kBoxRows), &p.rows},
      {arrays.weight, MatrixMap(arrays.inner, arrays.num_weights, T::kSumColumns / 2), &p.weight},
      {arrays.out, MatrixMap(arrays.out_columns, arrays.num_rows, T::kWarpgroupRows), &p.out}};
  for (const auto& item : maps) {
    const cudaError_t error = EncodeTensorMap(item.data, arrays.data_type, item.shape, item.map);
    if (error != cudaSuccess) {
      return error;
    }
  }
  constexpr int32_t kPairRows = T::kClusterBlocks * T::kRows;
  p.num_rows = arrays.num_rows;
  p.row_pairs = (arrays.num_rows - 1) / kPairRows + 1;
  p.column_tiles = column_tiles;
  p.steps = (arrays.inner - 1) / T::kStep + 1;
  p.tile_weights = tile_weights;
  p.block_weights = block_weights;
  const int64_t tiles = int64_t{p.row_pairs} * p.column_tiles;
  if (tiles > INT32_MAX) {
    return cudaErrorInvalidValue;
  }
  const auto clusters = static_cast<int32_t>(
      std::min<int64_t>(tiles, std::max(1, num_multiprocessors / T::kClusterBlocks)));
  return LaunchKernel(
      ProductKernel<T, Epilogue>,
      {clusters * T::kClusterBlocks, T::kThreads, T::kSharedBytes, T::kClusterBlocks}, stream, p,
      epilogue);
}

// The weights of a tile, 128 or 256: narrow tiles copy more for each product; they win where wide
// ones leave multiprocessors idle. `columns`: of a wide tile's output; a narrow one has half.
inline int32_t ChooseSumColumns(int32_t num_rows, int32_t out_columns, int32_t columns,
                                int32_t num_multiprocessors) {
  const auto waves = [&](int32_t tile_columns) {
    const int64_t tiles =
        int64_t{(num_rows - 1) / 256 + 1} * ((out_columns - 1) / tile_columns + 1);
    return (tiles - 1) / std::max(1, num_multiprocessors / 2) + 1;
  };
  // A wave of narrow tiles takes 0.52 times as long as one of wide tiles (measured, inner 1024).
  return waves(columns / 2) * 52 < waves(columns) * 100 ? 128 : 256;
}

}  // namespace canopy::kernels::hopper

#endif  // KERNELS_PRODUCT_HOPPER_CUH_
