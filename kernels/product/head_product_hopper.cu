#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/product/head_product.h"
#include "kernels/product/product_hopper.cuh"
#include "kernels/product/product_launch.cuh"
#include "kernels/product/products_hopper.h"

namespace canopy::kernels {
namespace {

// Computes the sine and cosine of angles up to 2^20. The angle is reduced modulo 2 pi in float32,
// then evaluated by the special function unit (absolute error 2^-21).
__device__ __forceinline__ void SineCosine(float angle, float* sine, float* cosine) {
  constexpr float kInverseTurn = 0.15915494309189535f;
  // 2 pi is represented as the sum of two floats.
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

// Each thread owns its elements of a head's two rows; only the sums of squares are reduced across
// the row's four threads.
template <int kHeadDim, typename Element>
struct HeadEpilogue {
  using ElementType = Element;

  const Element* bias;
  const Element* q_weight;
  const Element* k_weight;
  const int32_t* position_ids;
  const float* inverse_frequencies;
  int32_t num_rows;
  int32_t columns;
  int32_t query_columns;
  int32_t turned_columns;  // columns of queries and keys
  float epsilon;

  static constexpr int kSums = kHeadDim / 2;  // per thread and head
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

  // The positions of this thread's two rows.
  struct RowPositions {
    float of[2];
  };
  __device__ __forceinline__ RowPositions Positions(int32_t first_row) const {
    const int32_t thread = threadIdx.x % 128;
    const int32_t row = first_row + thread / 32 * 16 + thread % 32 / 4;
    RowPositions positions;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int32_t token = row + 8 * i;
      positions.of[i] = token < num_rows ? static_cast<float>(__ldg(position_ids + token)) : 0.0f;
    }
    return positions;
  }

  // Rotates kHeads heads of `x` by the same angles, except heads whose `is_turned` is false.
  template <int kHeads>
  __device__ __forceinline__ void Turn(float* x, const RowPositions& positions,
                                       const bool (&is_turned)[kHeads]) const {
#pragma unroll
    for (int block = 0; block < kBlocks / 2; ++block) {
      const float2 frequency =
          __ldg(reinterpret_cast<const float2*>(inverse_frequencies + Column(block)));
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float sine;
        float cosine;
        SineCosine(positions.of[i / 2] * (i % 2 == 0 ? frequency.x : frequency.y), &sine, &cosine);
#pragma unroll
        for (int head = 0; head < kHeads; ++head) {
          if (is_turned[head]) {
            float& a = x[head * kSums + 4 * block + i];
            float& b = x[head * kSums + 4 * block + i + kSums / 2];
            const float turned = a * cosine - b * sine;
            b = b * cosine + a * sine;
            a = turned;
          }
        }
      }
    }
  }

  template <typename T>
  static constexpr __host__ __device__ int32_t OutColumns() {
    return T::kSumColumns;
  }

  template <typename T, typename Store>
  __device__ __forceinline__ void Apply(float (&sums)[T::kSums], int32_t first_row,
                                        int32_t first_column, Store store) const {
    constexpr int kHeads = T::kSumColumns / kHeadDim;
    bool is_turned[kHeads];
#pragma unroll
    for (int head = 0; head < kHeads; ++head) {
      const int32_t column = first_column + head * kHeadDim;
      is_turned[head] = column < turned_columns;
      if (bias != nullptr && column < columns) {
        AddBias(sums + head * kSums, column);
      }
      if (is_turned[head] && q_weight != nullptr) {
        Norm(sums + head * kSums, column < query_columns ? q_weight : k_weight);
      }
    }
    if (is_turned[0]) {
      Turn(sums, Positions(first_row), is_turned);
    }
#pragma unroll
    for (int column = 0; column < T::kSumColumns; column += T::kStagedColumns) {
      store(sums + column / 2, first_column + column);
    }
  }
};

// Calls `visit` with a null pointer to the epilogue.
template <typename Visit>
cudaError_t Dispatch(int32_t head_dim, DataType type, Visit visit) {
  if (head_dim == 64) {
    return type == DataType::kFloat16
               ? visit(static_cast<HeadEpilogue<64, __half>*>(nullptr))
               : visit(static_cast<HeadEpilogue<64, __nv_bfloat16>*>(nullptr));
  }
  return type == DataType::kFloat16
             ? visit(static_cast<HeadEpilogue<128, __half>*>(nullptr))
             : visit(static_cast<HeadEpilogue<128, __nv_bfloat16>*>(nullptr));
}

template <typename Epilogue>
struct Heads {
  template <int kSumColumns>
  using Tile = hopper::ProductTile<kSumColumns, 128, typename Epilogue::ElementType>;
  using Product = hopper::Product<Tile, Epilogue>;
};

bool IsValid(const HeadProductParams& params) {
  return params.num_query_heads >= 1 && params.num_kv_heads >= 1 &&
         (params.head_dim == 64 || params.head_dim == 128) &&
         params.num_query_heads + int64_t{2} * params.num_kv_heads <= INT32_MAX / params.head_dim &&
         (params.q_weight == nullptr) == (params.k_weight == nullptr) &&
         hopper::IsTileWeights(params.tile_weights);
}

template <typename Epilogue>
Epilogue MakeEpilogue(const HeadProductParams& params, int32_t columns) {
  using Element = typename Epilogue::ElementType;
  Epilogue epilogue;
  epilogue.bias = static_cast<const Element*>(params.bias);
  epilogue.q_weight = static_cast<const Element*>(params.q_weight);
  epilogue.k_weight = static_cast<const Element*>(params.k_weight);
  epilogue.position_ids = params.position_ids;
  epilogue.inverse_frequencies = params.inverse_frequencies;
  epilogue.num_rows = params.num_rows;
  epilogue.columns = columns;
  epilogue.query_columns = params.num_query_heads * params.head_dim;
  epilogue.turned_columns = (params.num_query_heads + params.num_kv_heads) * params.head_dim;
  epilogue.epsilon = params.epsilon;
  return epilogue;
}

}  // namespace

cudaError_t InitHeadProduct() {
  for (const int32_t head_dim : {64, 128}) {
    for (const DataType type : {DataType::kBFloat16, DataType::kFloat16}) {
      const cudaError_t error = Dispatch(head_dim, type, [](auto* epilogue) {
        return Heads<std::remove_pointer_t<decltype(epilogue)>>::Product::Init();
      });
      if (error != cudaSuccess) {
        return error;
      }
    }
  }
  return cudaSuccess;
}

cudaError_t LaunchHeadProduct(const HeadProductParams& params, cudaStream_t stream) {
  return hopper::LaunchRows(params, IsValid(params), [&](hopper::ProductArrays& arrays) {
    arrays.out = params.out;
    arrays.num_weights = (params.num_query_heads + 2 * params.num_kv_heads) * params.head_dim;
    arrays.columns = arrays.num_weights;
    return Dispatch(params.head_dim, params.data_type, [&](auto* null_epilogue) {
      using Epilogue = std::remove_pointer_t<decltype(null_epilogue)>;
      return Heads<Epilogue>::Product::Launch(
          arrays, MakeEpilogue<Epilogue>(params, arrays.columns), params.tile_weights,
          params.num_multiprocessors, stream);
    });
  });
}

}  // namespace canopy::kernels
