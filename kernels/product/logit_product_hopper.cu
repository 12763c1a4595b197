#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/primitives/launch.cuh"
#include "kernels/primitives/vector_io.cuh"
#include "kernels/product/logit_product.h"
#include "kernels/product/logit_sums.cuh"
#include "kernels/product/product_hopper.cuh"
#include "kernels/product/product_launch.cuh"
#include "kernels/product/products_hopper.h"

namespace canopy::kernels {
namespace {

constexpr int kTileColumns = 256;

// The partial sums of a row's logits in one tile. The scaled maximum follows from `largest`.
struct Partial {
  float largest;
  float sum;
  float weighted;
  float smallest;
};

// Reads a tile's logits from registers and stores four numbers per row.
struct LogitEpilogue {
  Partial* partials;  // [column tiles, num_rows]
  int32_t num_rows;
  int32_t columns;
  float inverse_temperature;

  template <typename T>
  static constexpr __host__ __device__ int32_t OutColumns() {
    return T::kSumColumns;
  }

  // Returns the sums over this thread's logits in its row `half`. Columns from `columns` on are
  // left out; kAll = there are none.
  template <typename T, bool kAll>
  __device__ __forceinline__ LogitSums OfThread(const float (&logits)[T::kSums], int half,
                                                int32_t first_column) const {
    const int32_t column = first_column + 2 * static_cast<int32_t>(threadIdx.x % 4);
    const auto visit = [&](auto use) {
#pragma unroll
      for (int i = 0; i < T::kSums / 2; ++i) {
        if (kAll || column + i / 2 * 8 + i % 2 < columns) {
          use(logits[i / 2 * 4 + 2 * half + i % 2]);
        }
      }
    };
    LogitSums sums;
    visit([&](float logit) {
      sums.smallest = fminf(sums.smallest, logit);
      sums.largest = fmaxf(sums.largest, logit);
    });
    sums.max = fmaxf(sums.largest * inverse_temperature, -FLT_MAX);
    visit([&](float logit) {
      const float x = fmaf(logit, inverse_temperature, -sums.max);
      const float e = __expf(x);
      sums.sum += e;
      sums.weighted = fmaf(e, x, sums.weighted);
    });
    return sums;
  }

  template <typename T, typename Store>
  __device__ __forceinline__ void Apply(float (&logits)[T::kSums], int32_t first_row,
                                        int32_t first_column, Store /*store*/) const {
    const int32_t thread = threadIdx.x % 128;
    const int32_t row = first_row + thread / 32 * 16 + thread % 32 / 4;
    const bool is_whole = first_column + T::kSumColumns <= columns;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      LogitSums sums = is_whole ? OfThread<T, true>(logits, half, first_column)
                                : OfThread<T, false>(logits, half, first_column);
#pragma unroll
      for (int offset = 1; offset < 4; offset *= 2) {
        Merge(OfLane(sums, offset), sums);
      }
      if (thread % 4 == 0 && row + 8 * half < num_rows) {
        partials[static_cast<int64_t>(first_column / T::kSumColumns) * num_rows + row + 8 * half] =
            {sums.largest, sums.sum, sums.weighted, sums.smallest};
      }
    }
  }
};

template <typename Element>
struct Logits {
  // Only wide tiles are used, because the layout of the partial sums depends on their number.
  template <int kSumColumns>
  using Tile = hopper::ProductTile<kTileColumns, 64, Element>;
  using Product = hopper::Product<Tile, LogitEpilogue>;
};

constexpr int kMergeRows = 32;
constexpr int kMergeSlices = 16;

// Each thread merges every sixteenth tile of a row.
__global__ void __launch_bounds__(kMergeRows* kMergeSlices)
    MergeKernel(const Partial* partials, int32_t tiles, int32_t num_rows, float inverse_temperature,
                LogitOutputs outputs) {
  WaitForEarlierKernels();
  __shared__ LogitSums slices[kMergeSlices][kMergeRows];
  const int32_t member = threadIdx.x % kMergeRows;
  const int32_t slice = threadIdx.x / kMergeRows;
  const int32_t row = blockIdx.x * kMergeRows + member;
  LogitSums sums;
  if (row < num_rows) {
#pragma unroll 4
    for (int32_t tile = slice; tile < tiles; tile += kMergeSlices) {
      const Partial partial = partials[static_cast<int64_t>(tile) * num_rows + row];
      LogitSums of_tile;
      of_tile.max = fmaxf(partial.largest * inverse_temperature, -FLT_MAX);
      of_tile.sum = partial.sum;
      of_tile.weighted = partial.weighted;
      of_tile.smallest = partial.smallest;
      of_tile.largest = partial.largest;
      Merge(of_tile, sums);
    }
  }
  slices[slice][member] = sums;
  __syncthreads();
  if (slice != 0 || row >= num_rows) {
    return;
  }
  for (int other = 1; other < kMergeSlices; ++other) {
    Merge(slices[other][member], sums);
  }
  outputs.Write(row, sums);
}

constexpr int kTargetThreads = 256;

// Uses one warp per target.
template <typename Element>
__global__ void __launch_bounds__(kTargetThreads) TargetKernel(LogitProductParams p) {
  WaitForEarlierKernels();
  const int32_t target = (blockIdx.x * kTargetThreads + threadIdx.x) / 32;
  const int32_t lane = threadIdx.x % 32;
  if (target >= p.num_targets) {
    return;
  }
  const Element* row =
      static_cast<const Element*>(p.rows) + static_cast<int64_t>(p.target_rows[target]) * p.inner;
  const Element* weight = static_cast<const Element*>(p.weight) +
                          static_cast<int64_t>(p.target_columns[target]) * p.inner;
  float sum = 0;
  for (int32_t i = lane * kVector; i < p.inner; i += 32 * kVector) {
    RawVector<Element> raw[2];
    raw[0].Load(row + i);
    raw[1].Load(weight + i);
    float a[kVector];
    float b[kVector];
    raw[0].Get(a);
    raw[1].Get(b);
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      sum = fmaf(a[j], b[j], sum);
    }
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(0xFFFFFFFF, sum, offset);
  }
  if (lane == 0) {
    p.target_logits[target] = sum;
  }
}

int64_t NumTiles(int64_t columns) { return (columns - 1) / kTileColumns + 1; }

cudaError_t LaunchMerge(const LogitProductParams& params, const Partial* partials,
                        cudaStream_t stream) {
  const LogitOutputs outputs = {params.log_sum_exp, params.entropy, params.min_logit,
                                params.max_logit};
  return LaunchKernel(MergeKernel,
                      {(params.num_rows - 1) / kMergeRows + 1, kMergeRows * kMergeSlices}, stream,
                      partials, static_cast<int32_t>(NumTiles(params.columns)), params.num_rows,
                      params.inverse_temperature, outputs);
}

cudaError_t LaunchTargets(const LogitProductParams& params, cudaStream_t stream) {
  if (params.num_targets == 0) {
    return cudaSuccess;
  }
  const auto kernel =
      params.data_type == DataType::kFloat16 ? TargetKernel<__half> : TargetKernel<__nv_bfloat16>;
  constexpr int32_t kTargetsOfBlock = kTargetThreads / 32;
  return LaunchKernel(kernel, {(params.num_targets - 1) / kTargetsOfBlock + 1, kTargetThreads},
                      stream, params);
}

}  // namespace

cudaError_t InitLogitProduct() {
  const cudaError_t error = Logits<__nv_bfloat16>::Product::Init();
  return error == cudaSuccess ? Logits<__half>::Product::Init() : error;
}

int64_t LogitProductWorkspaceBytes(int64_t num_rows, int64_t columns) {
  return num_rows * NumTiles(columns) * static_cast<int64_t>(sizeof(Partial));
}

cudaError_t LaunchLogitProduct(const LogitProductParams& params, cudaStream_t stream) {
  const bool is_valid = params.columns >= 1 && params.num_targets >= 0;
  return hopper::LaunchRows(params, is_valid, [&](hopper::ProductArrays& arrays) {
    arrays.num_weights = params.columns;
    arrays.columns = params.columns;
    auto* partials = static_cast<Partial*>(params.workspace);
    const LogitEpilogue epilogue = {partials, params.num_rows, params.columns,
                                    params.inverse_temperature};
    const auto launch = params.data_type == DataType::kFloat16
                            ? Logits<__half>::Product::Launch
                            : Logits<__nv_bfloat16>::Product::Launch;
    cudaError_t error = launch(arrays, epilogue, kTileColumns, params.num_multiprocessors, stream);
    if (error == cudaSuccess) {
      error = LaunchMerge(params, partials, stream);
    }
    return error == cudaSuccess ? LaunchTargets(params, stream) : error;
  });
}

}  // namespace canopy::kernels
