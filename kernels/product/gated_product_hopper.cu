#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/product/gated_product.h"
#include "kernels/product/product_hopper.cuh"
#include "kernels/product/product_launch.cuh"
#include "kernels/product/products_hopper.h"

namespace canopy::kernels {
namespace {

// Block 0 copies the weights of the gate and block 1 those of up, so that a thread holds the gate
// and up sums of the same elements.
struct GatedEpilogue {
  template <typename T>
  static constexpr __host__ __device__ int32_t OutColumns() {
    return T::kSumColumns / 2;
  }

  template <typename T, typename Store>
  __device__ __forceinline__ void Apply(float (&sums)[T::kSums], int32_t /*first_row*/,
                                        int32_t first_column, Store store) const {
    constexpr int kHalf = T::kSums / 2;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      sums[i] = __fdividef(sums[i], 1.0f + __expf(-sums[i])) * sums[kHalf + i];
    }
    store(sums, first_column);
  }
};

template <typename Element>
struct Gated {
  template <int kSumColumns>
  using Tile = hopper::ProductTile<kSumColumns, kSumColumns / 2, Element>;
  using Product = hopper::Product<Tile, GatedEpilogue>;
};

bool IsValid(const GatedProductParams& params) {
  return params.columns >= 1 && params.columns % 8 == 0 && params.columns <= INT32_MAX / 2 &&
         hopper::IsTileWeights(params.tile_weights);
}

}  // namespace

cudaError_t InitGatedProduct() {
  const cudaError_t error = Gated<__nv_bfloat16>::Product::Init();
  return error == cudaSuccess ? Gated<__half>::Product::Init() : error;
}

cudaError_t LaunchGatedProduct(const GatedProductParams& params, cudaStream_t stream) {
  return hopper::LaunchRows(params, IsValid(params), [&](hopper::ProductArrays& arrays) {
    arrays.out = params.out;
    arrays.num_weights = 2 * params.columns;
    arrays.columns = params.columns;
    arrays.halves_apart = params.columns;
    const auto launch = params.data_type == DataType::kFloat16
                            ? Gated<__half>::Product::Launch
                            : Gated<__nv_bfloat16>::Product::Launch;
    return launch(arrays, GatedEpilogue(), params.tile_weights, params.num_multiprocessors, stream);
  });
}

}  // namespace canopy::kernels
