#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/head_product.h"
#include "kernels/product_hopper.cuh"
#include "kernels/products_hopper.h"

namespace canopy::kernels {
namespace {

// Sine and cosine of angles up to 2^20: the remainder of full turns in float32, its sine by the
// special function unit (absolute error 2^-21).
__device__ __forceinline__ void SineCosine(float angle, float* sine, float* cosine) {
  constexpr float kInverseTurn = 0.15915494309189535f;
  // 2 pi as the sum of two floats.
  constexpr float kTurn = 6.2831855f;
  constexpr float kTurnRest = -1.7484556e-7f;
  const float turns = rintf(angle * kInverseTurn);
  const float rest = fmaf(-turns, kTurnRest, fmaf(-turns, kTurn, angle));
  *sine = __sinf(rest);
  *cosine = __cosf(rest);
}

template <typename Element>
__device__ __forceinline__ float2 LoadPair(const Element* source) {
  float2 pair;
  Unpack<Element>(__ldg(reinterpret_cast<const uint32_t*>(source)), pair.x, pair.y);
  return pair;
}

// A thread holds all of what it needs of a head's two rows but the sums of squares, which the four
// threads of a row share.
template <int kHeadDim, typename Element>
struct HeadEpilogue {
  const Element* bias;
  const Element* q_weight;
  const Element* k_weight;
  const int32_t* position_ids;
  const float* inverse_frequencies;
  int32_t num_rows;
  int32_t columns;
  int32_t query_columns;
  int32_t turned_columns;  // queries and keys
  float epsilon;

  static constexpr int kSums = kHeadDim / 2;  // of a thread and head
  static constexpr int kBlocks = kHeadDim / 8;

  static __device__ __forceinline__ int32_t Column(int block) {
    return 8 * block + 2 * static_cast<int32_t>(threadIdx.x % 4);
  }

  __device__ __forceinline__ void AddBias(float* x, int32_t first_column) const {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const float2 pair = LoadPair(bias + first_column + Column(block));
      x[4 * block] += pair.x;
      x[4 * block + 1] += pair.y;
      x[4 * block + 2] += pair.x;
      x[4 * block + 3] += pair.y;
    }
  }

  __device__ __forceinline__ void Norm(float* x, const Element* weight) const {
    float squares[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      squares[i / 2 % 2] += x[i] * x[i];
    }
    float factor[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      squares[row] += __shfl_xor_sync(0xFFFFFFFF, squares[row], 1);
      squares[row] += __shfl_xor_sync(0xFFFFFFFF, squares[row], 2);
      factor[row] = rsqrtf(squares[row] / kHeadDim + epsilon);
    }
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const float2 pair = LoadPair(weight + Column(block));
      x[4 * block] *= factor[0] * pair.x;
      x[4 * block + 1] *= factor[0] * pair.y;
      x[4 * block + 2] *= factor[1] * pair.x;
      x[4 * block + 3] *= factor[1] * pair.y;
    }
  }

  __device__ __forceinline__ void Turn(float* x, const float (&positions)[2]) const {
#pragma unroll
    for (int block = 0; block < kBlocks / 2; ++block) {
      const float2 frequency =
          __ldg(reinterpret_cast<const float2*>(inverse_frequencies + Column(block)));
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float sine;
        float cosine;
        SineCosine(positions[i / 2] * (i % 2 == 0 ? frequency.x : frequency.y), &sine, &cosine);
        float& a = x[4 * block + i];
        float& b = x[4 * block + i + kSums / 2];
        const float turned = a * cosine - b * sine;
        b = b * cosine + a * sine;
        a = turned;
      }
    }
  }

  template <typename T, typename Store>
  __device__ __forceinline__ void Apply(float (&sums)[T::kSums], int32_t first_row,
                                        int32_t column_tile, Store store) const {
    const int32_t thread = threadIdx.x % 128;
    const int32_t row = first_row + thread / 32 * 16 + thread % 32 / 4;
    float positions[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int32_t token = row + 8 * i;
      positions[i] = token < num_rows ? static_cast<float>(__ldg(position_ids + token)) : 0.0f;
    }
#pragma unroll
    for (int head = 0; head < T::kSumColumns / kHeadDim; ++head) {
      float* x = sums + head * kSums;
      const int32_t first_column = column_tile * T::kSumColumns + head * kHeadDim;
      if (first_column < columns) {
        if (bias != nullptr) {
          AddBias(x, first_column);
        }
        if (first_column < turned_columns) {
          if (q_weight != nullptr) {
            Norm(x, first_column < query_columns ? q_weight : k_weight);
          }
          Turn(x, positions);
        }
      }
      constexpr int kHeadsStaged = T::kStagedColumns / kHeadDim;
      if (head % kHeadsStaged == kHeadsStaged - 1) {
        const int first = head - kHeadsStaged + 1;
        store(sums + first * kSums, column_tile * T::kSumColumns + first * kHeadDim);
      }
    }
  }
};

template <int kSumColumns, typename Element>
using Tile = hopper::ProductTile<kSumColumns, 128, Element>;

// Calls `visit` with null pointers of the tile and the epilogue.
template <int kHeadDim, typename Element, typename Visit>
cudaError_t DispatchTile(int32_t sum_columns, Visit visit) {
  auto* epilogue = static_cast<HeadEpilogue<kHeadDim, Element>*>(nullptr);
  return sum_columns == 128 ? visit(static_cast<Tile<128, Element>*>(nullptr), epilogue)
                            : visit(static_cast<Tile<256, Element>*>(nullptr), epilogue);
}

template <typename Visit>
cudaError_t Dispatch(int32_t sum_columns, int32_t head_dim, DataType type, Visit visit) {
  if (head_dim == 64) {
    return type == DataType::kFloat16 ? DispatchTile<64, __half>(sum_columns, visit)
                                      : DispatchTile<64, __nv_bfloat16>(sum_columns, visit);
  }
  return type == DataType::kFloat16 ? DispatchTile<128, __half>(sum_columns, visit)
                                    : DispatchTile<128, __nv_bfloat16>(sum_columns, visit);
}

bool IsValid(const HeadProductParams& params) {
  return params.num_rows >= 0 && params.inner >= 1 && params.inner % 8 == 0 &&
         params.num_query_heads >= 1 && params.num_kv_heads >= 1 &&
         (params.head_dim == 64 || params.head_dim == 128) &&
         params.num_query_heads + int64_t{2} * params.num_kv_heads <= INT32_MAX / params.head_dim &&
         (params.q_weight == nullptr) == (params.k_weight == nullptr) &&
         (params.tile_weights == 0 || params.tile_weights == 128 || params.tile_weights == 256);
}

}  // namespace

cudaError_t InitHeadProduct() {
  for (const int32_t sum_columns : {128, 256}) {
    for (const int32_t head_dim : {64, 128}) {
      for (const DataType type : {DataType::kBFloat16, DataType::kFloat16}) {
        const cudaError_t error =
            Dispatch(sum_columns, head_dim, type, [](auto* tile, auto* epilogue) {
              return hopper::InitProduct<std::remove_pointer_t<decltype(tile)>,
                                         std::remove_pointer_t<decltype(epilogue)>>();
            });
        if (error != cudaSuccess) {
          return error;
        }
      }
    }
  }
  return cudaSuccess;
}

cudaError_t LaunchHeadProduct(const HeadProductParams& params, cudaStream_t stream) {
  if (!IsValid(params)) {
    return cudaErrorInvalidValue;
  }
  if (params.data_type == DataType::kFloat32) {
    return cudaErrorNotSupported;
  }
  if (params.num_rows == 0) {
    return cudaSuccess;
  }
  const int32_t columns = (params.num_query_heads + 2 * params.num_kv_heads) * params.head_dim;
  const int32_t sum_columns =
      params.tile_weights != 0
          ? params.tile_weights
          : hopper::ChooseSumColumns(params.num_rows, columns, 256, params.num_multiprocessors);
  const hopper::ProductArrays arrays = {params.rows,  params.weight, params.out, params.num_rows,
                                        params.inner, columns,       columns,    params.data_type};
  return Dispatch(
      sum_columns, params.head_dim, params.data_type, [&](auto* tile, auto* null_epilogue) {
        using T = std::remove_pointer_t<decltype(tile)>;
        using Element = typename T::Element;
        const std::remove_pointer_t<decltype(null_epilogue)> epilogue = {
            static_cast<const Element*>(params.bias),
            static_cast<const Element*>(params.q_weight),
            static_cast<const Element*>(params.k_weight),
            params.position_ids,
            params.inverse_frequencies,
            params.num_rows,
            columns,
            params.num_query_heads * params.head_dim,
            (params.num_query_heads + params.num_kv_heads) * params.head_dim,
            params.epsilon};
        return hopper::LaunchProduct<T>(arrays, epilogue, (columns - 1) / T::kSumColumns + 1,
                                        T::kSumColumns, T::kSumColumns / 2,
                                        params.num_multiprocessors, stream);
      });
}

}  // namespace canopy::kernels
