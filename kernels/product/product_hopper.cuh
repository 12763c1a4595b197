// Computes rows x weight^T with Hopper's warpgroup products and copy engine (TMA), and passes the
// float32 sums to an epilogue.
//
// The two blocks of a cluster compute two tiles of 128 rows with the same weights. Each block
// copies its own rows, and half of the weights for both blocks. A consumer warpgroup processes 64
// rows of a tile. The two warpgroups drift apart by a few steps, so that one runs its epilogue
// while the other keeps the tensor cores busy.
#ifndef KERNELS_PRODUCT_PRODUCT_HOPPER_CUH_
#define KERNELS_PRODUCT_PRODUCT_HOPPER_CUH_

#include <cuda.h>

#include <cstdint>

#include "kernels/primitives/hopper_ptx.cuh"
#include "kernels/primitives/launch.cuh"
#include "kernels/primitives/ring.cuh"
#include "kernels/primitives/vector_io.cuh"

namespace canopy::kernels::hopper {

// kSumColumns is the number of weights per tile, 128 or 256. kStagedColumns is the number of output
// columns that a warpgroup stores with one copy.
template <int kSumColumnsOfTile, int kStagedColumnsOfTile, typename ElementType>
struct ProductTile {
  using Element = ElementType;
  static constexpr int kSumColumns = kSumColumnsOfTile;
  static constexpr int kStagedColumns = kStagedColumnsOfTile;
  static constexpr int kSums = kSumColumns / 2;  // per thread
  static constexpr int kWarpgroupRows = 64;
  static constexpr int kConsumers = 2;
  static constexpr int kRows = kConsumers * kWarpgroupRows;
  static constexpr int kStep = 64;  // elements summed per step: 128 bytes, the width of the swizzle
  static constexpr int kThreads = (kConsumers + 1) * 128;
  static constexpr int kClusterBlocks = 2;

  static constexpr int kRowBytes = kStep * 2;
  // Boxes after the last row are not copied, because filling them with zeros takes longer than
  // copying.
  static constexpr int kBoxRows = 32;
  static constexpr int kBoxBytes = kBoxRows * kRowBytes;
  static constexpr int kRowsBytes = kRows * kRowBytes;
  static constexpr int kWeightBoxRows = 64;
  // boxes that one block copies
  static constexpr int kWeightBoxes = kSumColumns / 2 / kWeightBoxRows;
  static constexpr int kWeightBoxBytes = kWeightBoxRows * kRowBytes;
  static constexpr int kWeightBytes = kWeightBoxes * kWeightBoxBytes;
  static constexpr int kOutBoxBytes = kWarpgroupRows * 128;  // 64 columns
};

// The tiles of one launch: wide tiles first, then narrow tiles, which are halves of wide ones. Both
// use the stages of the wide tiles.
template <typename WideTile, typename NarrowTile>
struct ProductTiles {
  using Wide = WideTile;
  using Narrow = NarrowTile;
  static constexpr int kStageBytes = Wide::kRowsBytes + 2 * Wide::kWeightBytes;
  static constexpr int kStagingBytes =  // per warpgroup
      Wide::kStagedColumns / 64 * Wide::kOutBoxBytes;
  static constexpr int kAlignment = 1024;  // required by the swizzle
  static constexpr int kBarrierBytes = 256;
  static constexpr int kMaxShared = 227 * 1024;
  static constexpr int kStages =
      (kMaxShared - kAlignment - kBarrierBytes - Wide::kConsumers * kStagingBytes) / kStageBytes;
  static_assert(kStages >= 4, "too little to copy ahead");
  static constexpr int kSharedBytes =
      kAlignment + kBarrierBytes + Wide::kConsumers * kStagingBytes + kStages * kStageBytes;
};

struct ProductParams {
  CUtensorMap rows;    // [inner, rows], boxes of 64 x kBoxRows
  CUtensorMap weight;  // [inner, weights], boxes of 64 x kWeightBoxRows
  CUtensorMap out;     // [columns, rows], boxes of 64 x 64
  int32_t num_rows;
  int32_t row_pairs;     // pairs of row tiles, one pair per cluster
  int32_t column_tiles;  // number of wide tiles that cover the columns
  // The first `wide_tiles` of the row_pairs x column_tiles wide tiles are computed whole. Each of
  // the others is split into two narrow tiles.
  int32_t wide_tiles;
  int32_t tiles;  // number of tiles that are computed, wide and narrow
  int32_t steps;
  // distance between the weights that block 0 copies and those of block 1; 0 = adjacent
  int32_t halves_apart;
};

struct TilePlace {
  int32_t first_row;     // first row of this block's tile
  int32_t first_column;  // first column of the output
  int32_t first_weight;  // first weight that this block copies
};

// Returns the place of a tile. Neighbouring clusters share rows and weights in the L2 cache: tiles
// advance through a band of row pairs, then to the next columns.
template <typename T>
__device__ __forceinline__ TilePlace PlaceOf(const ProductParams& p, int32_t index, int32_t rank,
                                             int32_t out_columns) {
  constexpr int32_t kBand = 8;
  const int32_t narrow = index - p.wide_tiles;
  const int32_t wide = narrow < 0 ? index : p.wide_tiles + narrow / 2;
  const int32_t band_tiles = kBand * p.column_tiles;
  const int32_t band = wide / band_tiles;
  const int32_t in_band = wide - band * band_tiles;
  const int32_t pairs = min(kBand, p.row_pairs - band * kBand);
  const int32_t column_tile = in_band / pairs;
  const int32_t pair = band * kBand + in_band - column_tile * pairs;
  TilePlace place;
  place.first_row = (pair * T::kClusterBlocks + rank) * T::kRows;
  place.first_column =
      narrow < 0 ? column_tile * out_columns : (2 * column_tile + narrow % 2) * out_columns;
  place.first_weight =
      place.first_column + rank * (p.halves_apart > 0 ? p.halves_apart : T::kSumColumns / 2);
  return place;
}

template <typename Tiles>
struct ProductShared {
  uint32_t rows;         // [stage]
  uint32_t weights;      // [stage], block 0's half first
  uint32_t staging;      // [consumer][64 columns]
  uint32_t full, empty;  // [stage]

  __device__ explicit ProductShared(uint32_t raw) {
    using Wide = typename Tiles::Wide;
    rows = (raw + Tiles::kAlignment - 1) / Tiles::kAlignment * Tiles::kAlignment;
    weights = rows + Tiles::kStages * Wide::kRowsBytes;
    staging = weights + Tiles::kStages * 2 * Wide::kWeightBytes;
    full = staging + Wide::kConsumers * Tiles::kStagingBytes;
    empty = full + 8 * Tiles::kStages;
  }
  __device__ __forceinline__ uint32_t WeightsAt(int32_t stage) const {
    return weights + stage * 2 * Tiles::Wide::kWeightBytes;
  }
};

// The copies of one thread for its block, tile after tile.
template <typename Tiles>
struct Producer {
  const ProductParams& p;
  const ProductShared<Tiles>& shared;
  Ring<Tiles::kStages> ring;

  // Copies this block's half of the weights to both blocks.
  template <typename T>
  __device__ __forceinline__ void CopyWeights(const TilePlace& place, int32_t rank, int32_t step,
                                              int32_t boxes, int32_t stage) {
    constexpr uint16_t kBothBlocks = 3;
    const uint32_t full = shared.full + 8 * stage;
    ArriveExpect(full, boxes * T::kBoxBytes + 2 * T::kWeightBytes);
#pragma unroll
    for (int box = 0; box < T::kWeightBoxes; ++box) {
      LoadBox2ToBlocks(shared.WeightsAt(stage) + rank * T::kWeightBytes + box * T::kWeightBoxBytes,
                       p.weight, full, step * T::kStep,
                       place.first_weight + box * T::kWeightBoxRows, kBothBlocks);
    }
  }

  template <typename T>
  __device__ __forceinline__ void CopyRows(const TilePlace& place, int32_t step, int32_t boxes) {
    const uint32_t target = shared.rows + ring.index * T::kRowsBytes;
    for (int32_t box = 0; box < boxes; ++box) {
      LoadBox2(target + box * T::kBoxBytes, p.rows, shared.full + 8 * ring.index, step * T::kStep,
               place.first_row + box * T::kBoxRows);
    }
    ring.Advance();
  }

  template <typename T>
  __device__ __forceinline__ void CopyTile(const TilePlace& place, int32_t rank, bool is_first) {
    const int32_t rows = max(0, min(T::kRows, p.num_rows - place.first_row));
    const int32_t boxes = (rows + T::kBoxRows - 1) / T::kBoxRows;
    int32_t step = 0;
    if (is_first) {
      // Weights can be copied before earlier kernels finish.
      const int32_t ahead = min(Tiles::kStages, p.steps);
      for (int32_t stage = 0; stage < ahead; ++stage) {
        CopyWeights<T>(place, rank, stage, boxes, stage);
      }
      WaitForEarlierKernels();
      for (; step < ahead; ++step) {
        CopyRows<T>(place, step, boxes);
      }
    }
    for (; step < p.steps; ++step) {
      // Waits until both blocks have finished with the stage.
      Wait(shared.empty + 8 * ring.index, ring.parity ^ 1);
      CopyWeights<T>(place, rank, step, boxes, ring.index);
      CopyRows<T>(place, step, boxes);
    }
  }
};

// Signals both producers that this warp has finished with a stage.
__device__ __forceinline__ void ArriveWarpAtBoth(uint32_t barrier) {
  const uint32_t lane = threadIdx.x % 32;
  if (lane < 2) {
    ArriveAt(barrier, lane);
  }
}

// The computation of a warpgroup, tile after tile.
template <typename Tiles>
struct Consumer {
  const ProductParams& p;
  const ProductShared<Tiles>& shared;
  int32_t index;
  Ring<Tiles::kStages> ring;

  // Computes sums[64 x kSumColumns] = rows x weight^T. Thread t holds parts of two rows: row r = t
  // / 32 * 16 + t % 32 / 4, and row r + 8. Of their columns 8 j + 2 (t % 4) and the next, row r is
  // in sums[4 j] and sums[4 j + 1], row r + 8 in sums[4 j + 2] and sums[4 j + 3].
  template <typename T>
  __device__ __forceinline__ void Sum(float (&sums)[T::kSums]) {
    int32_t last = 0;
    for (int32_t step = 0; step < p.steps; ++step) {
      Wait(shared.full + 8 * ring.index, ring.parity);
      const OperandDescriptor a(
          shared.rows + ring.index * T::kRowsBytes + index * T::kWarpgroupRows * T::kRowBytes, 0,
          8 * T::kRowBytes);
      const OperandDescriptor b(shared.WeightsAt(ring.index), 0, 8 * T::kRowBytes);
      Pin(sums);
      FenceProducts();
#pragma unroll
      for (int i = 0; i < T::kStep / 16; ++i) {
        SharedProduct<typename T::Element>(sums, a.At(32 * i), b.At(32 * i), step > 0 || i > 0);
      }
      CommitProducts();
      // The previous step is complete; the current step is still running.
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

  // Rounds and stores kStagedColumns columns. `values` has the layout of the sums.
  template <typename T>
  __device__ __forceinline__ void Store(const float* values, int32_t first_row,
                                        int32_t first_column) {
    using Element = typename T::Element;
    const uint32_t staging = shared.staging + index * Tiles::kStagingBytes;
    const int32_t thread = threadIdx.x % 128;
    const int32_t lane = thread % 32;
    const int32_t row = thread / 32 * 16 + (lane / 8 % 2) * 8 + lane % 8;
    // Waits until the previous contents of the staging buffer have been stored.
    if (thread == 0) {
      WaitStoresRead();
    }
    SyncNamed(1 + index, 128);
#pragma unroll
    for (int i = 0; i < T::kStagedColumns / 16; ++i) {
      const float* v = values + 8 * i;
      const int32_t column16 = 2 * i + lane / 16;  // in units of 16 bytes
      StoreMatrices(
          staging + column16 / 8 * T::kOutBoxBytes + row * 128 + ((column16 % 8) ^ (lane % 8)) * 16,
          PackPair<Element>(v[0], v[1]), PackPair<Element>(v[2], v[3]),
          PackPair<Element>(v[4], v[5]), PackPair<Element>(v[6], v[7]));
    }
    FenceAsyncProxy();
    SyncNamed(1 + index, 128);
    if (thread == 0) {
#pragma unroll
      for (int box = 0; box < T::kStagedColumns / 64; ++box) {
        StoreBox2(staging + box * T::kOutBoxBytes, p.out, first_column + 64 * box, first_row);
      }
    }
  }

  template <typename T, typename Epilogue>
  __device__ __forceinline__ void ComputeTile(const TilePlace& place, const Epilogue& epilogue) {
    float sums[T::kSums];
    Sum<T>(sums);
    const int32_t first_row = place.first_row + index * T::kWarpgroupRows;
    epilogue.template Apply<T>(sums, first_row, place.first_column,
                               [&](const float* values, int32_t first_column) {
                                 Store<T>(values, first_row, first_column);
                               });
  }
};

template <typename Tiles, typename Epilogue>
__global__ void __launch_bounds__(Tiles::Wide::kThreads, 1)
    ProductKernel(const __grid_constant__ ProductParams p,
                  const __grid_constant__ Epilogue epilogue) {
  using Wide = typename Tiles::Wide;
  using Narrow = typename Tiles::Narrow;
  extern __shared__ char raw[];
  const ProductShared<Tiles> shared(SharedAddress(raw));
  if (threadIdx.x == 0) {
    constexpr uint32_t kConsumerWarps = Wide::kClusterBlocks * Wide::kConsumers * 4;
    for (int i = 0; i < Tiles::kStages; ++i) {
      InitBarrier(shared.full + 8 * i, 1);
      InitBarrier(shared.empty + 8 * i, kConsumerWarps);
    }
    FenceBarrierInit();
  }
  // Both blocks must be ready before either copies into the other.
  SyncCluster();
  const auto rank = static_cast<int32_t>(ClusterRank());
  const int32_t first = blockIdx.x / Wide::kClusterBlocks;
  const int32_t step = gridDim.x / Wide::kClusterBlocks;
  const int32_t warpgroup = __shfl_sync(0xFFFFFFFF, static_cast<int32_t>(threadIdx.x) / 128, 0);
  if (warpgroup == 0) {
    ShrinkRegisters<40>();
    if (threadIdx.x == 0) {
      Producer<Tiles> producer{p, shared, {}};
      int32_t tile = first;
      for (; tile < p.wide_tiles; tile += step) {
        producer.template CopyTile<Wide>(
            PlaceOf<Wide>(p, tile, rank, Epilogue::template OutColumns<Wide>()), rank,
            tile == first);
      }
      for (; tile < p.tiles; tile += step) {
        producer.template CopyTile<Narrow>(
            PlaceOf<Narrow>(p, tile, rank, Epilogue::template OutColumns<Narrow>()), rank,
            tile == first);
      }
    }
  } else {
    GrowRegisters<232>();
    WaitForEarlierKernels();
    Consumer<Tiles> consumer{p, shared, warpgroup - 1, {}};
    int32_t tile = first;
    for (; tile < p.wide_tiles; tile += step) {
      consumer.template ComputeTile<Wide>(
          PlaceOf<Wide>(p, tile, rank, Epilogue::template OutColumns<Wide>()), epilogue);
    }
    for (; tile < p.tiles; tile += step) {
      consumer.template ComputeTile<Narrow>(
          PlaceOf<Narrow>(p, tile, rank, Epilogue::template OutColumns<Narrow>()), epilogue);
    }
    // Shared memory must remain valid until the last store has read it.
    if (threadIdx.x % 128 == 0) {
      WaitStoresRead();
    }
  }
  // A block must not exit before the other block has signalled the end of its last stages.
  SyncCluster();
}

}  // namespace canopy::kernels::hopper

#endif  // KERNELS_PRODUCT_PRODUCT_HOPPER_CUH_
