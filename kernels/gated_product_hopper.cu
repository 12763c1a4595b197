#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/gated_product.h"
#include "kernels/product_hopper.cuh"
#include "kernels/products_hopper.h"

namespace canopy::kernels {
namespace {

// Block 0 copies weights of the gate, block 1 those of up, so that a thread holds gate and up of
// the same elements.
struct GatedEpilogue {
  template <typename T, typename Store>
  __device__ __forceinline__ void Apply(float (&sums)[T::kSums], int32_t /*first_row*/,
                                        int32_t column_tile, Store store) const {
    constexpr int kHalf = T::kSums / 2;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      sums[i] = __fdividef(sums[i], 1.0f + __expf(-sums[i])) * sums[kHalf + i];
    }
    store(sums, column_tile * T::kStagedColumns);
  }
};

template <int kSumColumns, typename Element>
using Tile = hopper::ProductTile<kSumColumns, kSumColumns / 2, Element>;

// Calls `visit` with a null pointer of the tile.
template <typename Visit>
cudaError_t Dispatch(int32_t sum_columns, DataType type, Visit visit) {
  if (sum_columns == 128) {
    return type == DataType::kFloat16 ? visit(static_cast<Tile<128, __half>*>(nullptr))
                                      : visit(static_cast<Tile<128, __nv_bfloat16>*>(nullptr));
  }
  return type == DataType::kFloat16 ? visit(static_cast<Tile<256, __half>*>(nullptr))
                                    : visit(static_cast<Tile<256, __nv_bfloat16>*>(nullptr));
}

bool IsValid(const GatedProductParams& params) {
  return params.num_rows >= 0 && params.columns >= 1 && params.columns % 8 == 0 &&
         params.columns <= INT32_MAX / 2 && params.inner >= 1 && params.inner % 8 == 0 &&
         (params.tile_weights == 0 || params.tile_weights == 128 || params.tile_weights == 256);
}

}  // namespace

cudaError_t InitGatedProduct() {
  for (const int32_t sum_columns : {128, 256}) {
    for (const DataType type : {DataType::kBFloat16, DataType::kFloat16}) {
      const cudaError_t error = Dispatch(sum_columns, type, [](auto* tile) {
        return hopper::InitProduct<std::remove_pointer_t<decltype(tile)>, GatedEpilogue>();
      });
      if (error != cudaSuccess) {
        return error;
      }
    }
  }
  return cudaSuccess;
}

cudaError_t LaunchGatedProduct(const GatedProductParams& params, cudaStream_t stream) {
  if (!IsValid(params)) {
    return cudaErrorInvalidValue;
  }
  if (params.data_type == DataType::kFloat32) {
    return cudaErrorNotSupported;
  }
  if (params.num_rows == 0) {
    return cudaSuccess;
  }
  const int32_t sum_columns = params.tile_weights != 0
                                  ? params.tile_weights
                                  : hopper::ChooseSumColumns(params.num_rows, params.columns, 128,
                                                             params.num_multiprocessors);
  const hopper::ProductArrays arrays = {params.rows,     params.weight,   params.out,
                                        params.num_rows, params.inner,    2 * params.columns,
                                        params.columns,  params.data_type};
  return Dispatch(sum_columns, params.data_type, [&](auto* tile) {
    using T = std::remove_pointer_t<decltype(tile)>;
    return hopper::LaunchProduct<T>(arrays, GatedEpilogue(),
                                    (params.columns - 1) / T::kStagedColumns + 1, T::kStagedColumns,
                                    params.columns, params.num_multiprocessors, stream);
  });
}

}  // namespace canopy::kernels
