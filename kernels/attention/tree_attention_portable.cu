// Tree attention with mma.sync and cp.async. A block of four warps processes 64 rows of one kv
// head. Key chunks are processed in steps of 64 keys, with two steps in shared memory.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/attention/tree_attention_device.cuh"
#include "kernels/attention/tree_attention_portable.h"
#include "kernels/attention/tree_attention_softmax.cuh"
#include "kernels/primitives/launch.cuh"

namespace canopy::kernels {
namespace {

constexpr int32_t kThreads = 128;
constexpr int32_t kRows = 64;
constexpr int32_t kKeys = TilingOf(TreeAttentionInstance::kPortable).key_tile;
constexpr int32_t kChunks = kKeys / kKeyChunkTokens;
// makes a row an odd number of 16-byte units, which avoids bank conflicts
constexpr int32_t kPadElements = 8;

template <typename Element>
struct Params {
  const Element* q;
  const Element* k;
  const Element* v;
  Element* out;
  float* log_sum_exp;
  HeadStrides q_strides, k_strides, v_strides, out_strides;
  VisibilityLists lists;
  int32_t num_tokens;
  int32_t num_kv_heads;
  int32_t group;
  int32_t log2_padded_group;
  int32_t tile_tokens;
  float scale;
};

template <int kHeadDim>
struct Layout {
  static constexpr int kRowBytes = (kHeadDim + kPadElements) * 2;
  static constexpr int kTileBytes = kKeys * kRowBytes;
  static constexpr int kQueries = 0;
  static constexpr int kKeysAt = kRows * kRowBytes;
  static constexpr int kValuesAt = kKeysAt + 2 * kTileBytes;
  static constexpr int kExitsAt = kValuesAt + 2 * kTileBytes;
  static constexpr int kBytes = kExitsAt + 2 * kKeys * 4;
};

// Copies 16 bytes, or writes zeros if `valid` is false. The source must be a valid address in both
// cases.
__device__ __forceinline__ void CopyAsync(uint32_t target, const void* source, bool valid) {
  const int32_t bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source),
               "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void CommitCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void WaitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ __forceinline__ void LoadMatrices(uint32_t address, uint32_t (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void LoadMatricesTransposed(uint32_t address, uint32_t (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// Computes d[16 x 8] += a[16 x 16] b[16 x 8].
template <typename Element>
__device__ __forceinline__ void Multiply(float* d, const uint32_t* a, uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<Element, __half>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// Starts the copies of one step into buffer `step % 2`.
template <typename Element, int kHeadDim>
__device__ __forceinline__ void CopyStep(const Params<Element>& p, uint32_t shared,
                                         const int32_t* list, int32_t step, int32_t kv_head) {
  using L = Layout<kHeadDim>;
  constexpr int32_t kUnits = kHeadDim / 8;  // 16-byte units per row
  const int32_t buffer = step % 2;
  const Element* k = p.k + kv_head * p.k_strides.head;
  const Element* v = p.v + kv_head * p.v_strides.head;
#pragma unroll
  for (int32_t i = threadIdx.x; i < kKeys * kUnits; i += kThreads) {
    const int32_t key = i / kUnits;
    const int32_t unit = i % kUnits;
    const int32_t token =
        list[step * kChunks + key / kKeyChunkTokens] * kKeyChunkTokens + key % kKeyChunkTokens;
    const bool valid = token < p.num_tokens;
    const int64_t row = valid ? token : 0;
    const uint32_t offset = buffer * L::kTileBytes + key * L::kRowBytes + unit * 16;
    CopyAsync(shared + L::kKeysAt + offset, k + row * p.k_strides.token + unit * 8, valid);
    CopyAsync(shared + L::kValuesAt + offset, v + row * p.v_strides.token + unit * 8, valid);
  }
  if (threadIdx.x < kKeys / 4) {
    const int32_t key = threadIdx.x * 4;
    const int32_t token =
        list[step * kChunks + key / kKeyChunkTokens] * kKeyChunkTokens + key % kKeyChunkTokens;
    CopyAsync(shared + L::kExitsAt + buffer * kKeys * 4 + key * 4, p.lists.exits + token, true);
  }
  CommitCopies();
}

template <typename Element, int kHeadDim>
__device__ __forceinline__ void CopyQueries(const Params<Element>& p, uint32_t shared,
                                            int32_t first_token, int32_t kv_head) {
  using L = Layout<kHeadDim>;
  constexpr int32_t kUnits = kHeadDim / 8;
#pragma unroll
  for (int32_t i = threadIdx.x; i < kRows * kUnits; i += kThreads) {
    const int32_t row = i / kUnits;
    const int32_t unit = i % kUnits;
    const int32_t token = first_token + (row >> p.log2_padded_group);
    const int32_t head = row & ((1 << p.log2_padded_group) - 1);
    const bool valid = token < p.num_tokens && head < p.group;
    const int64_t offset =
        valid ? token * p.q_strides.token + (kv_head * p.group + head) * p.q_strides.head + unit * 8
              : 0;
    CopyAsync(shared + L::kQueries + row * L::kRowBytes + unit * 16, p.q + offset, valid);
  }
}

template <typename Element, int kHeadDim>
__device__ __forceinline__ void StoreRows(const Params<Element>& p, int32_t first_token,
                                          int32_t kv_head, const SoftmaxState& state,
                                          const float (&output)[kHeadDim / 2]) {
  const int32_t lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float sum = RowSum(state.sum[i]);
    const float inverse = __fdividef(1.0f, sum);
    const int32_t row = threadIdx.x / 32 * 16 + i * 8 + lane / 4;
    const int32_t token = first_token + (row >> p.log2_padded_group);
    const int32_t head = row & ((1 << p.log2_padded_group) - 1);
    if (token >= p.num_tokens || head >= p.group) {
      continue;
    }
    const int32_t query_head = kv_head * p.group + head;
    if (p.log_sum_exp != nullptr && lane % 4 == 0) {
      p.log_sum_exp[static_cast<int64_t>(token) * p.num_kv_heads * p.group + query_head] =
          state.max[i] * p.scale + __logf(sum);
    }
    Element* out = p.out + token * p.out_strides.token + query_head * p.out_strides.head;
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      *reinterpret_cast<uint32_t*>(out + 8 * n + 2 * (lane % 4)) =
          Pack<Element>(output[4 * n + 2 * i] * inverse, output[4 * n + 2 * i + 1] * inverse);
    }
  }
}

template <typename Element, int kHeadDim>
__global__ void __launch_bounds__(kThreads) PortableKernel(const Params<Element> p) {
  WaitForEarlierKernels();
  using L = Layout<kHeadDim>;
  extern __shared__ __align__(16) char raw[];
  const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(raw));
  // The head index varies fastest, so blocks that run at the same time share lists.
  const int32_t tile = blockIdx.x / p.num_kv_heads;
  const int32_t kv_head = blockIdx.x % p.num_kv_heads;
  const int32_t lane = threadIdx.x % 32;
  const int32_t warp_row = threadIdx.x / 32 * 16;
  const int32_t first_token = tile * p.tile_tokens;
  const int2 header = p.lists.headers[tile];
  const int32_t* list = p.lists.lists + static_cast<int64_t>(tile) * p.lists.list_capacity;
  const OwnChunks own = OwnChunksOf(tile, p.tile_tokens, p.num_tokens);
  MaskRows rows;
  rows.token[0] = first_token + ((warp_row + lane / 4) >> p.log2_padded_group);
  rows.token[1] = first_token + ((warp_row + lane / 4 + 8) >> p.log2_padded_group);
  rows.own_token = own.first * kKeyChunkTokens;
  rows.own_keys = (own.end - own.first) * kKeyChunkTokens;
  const float scale_log2 = p.scale * kLog2E;

  CopyQueries<Element, kHeadDim>(p, shared, first_token, kv_head);
  CopyStep<Element, kHeadDim>(p, shared, list, 0, kv_head);
  WaitCopies<0>();
  __syncthreads();
  // ldmatrix reads, for lane l, row l % 16 of the 16 x 16 block at 16-byte column l / 16.
  const uint32_t lane_offset = (lane % 16) * L::kRowBytes + lane / 16 * 16;
  uint32_t queries[kHeadDim / 16][4];
#pragma unroll
  for (int i = 0; i < kHeadDim / 16; ++i) {
    LoadMatrices(shared + L::kQueries + warp_row * L::kRowBytes + lane_offset + i * 32, queries[i]);
  }

  float output[kHeadDim / 2] = {};
  SoftmaxState state;
  for (int32_t step = 0; step < header.x; ++step) {
    WaitCopies<0>();
    __syncthreads();
    if (step + 1 < header.x) {
      CopyStep<Element, kHeadDim>(p, shared, list, step + 1, kv_head);
    }
    const uint32_t buffer = step % 2 * L::kTileBytes + lane_offset;

    float scores[kKeys / 2] = {};
#pragma unroll
    for (int key = 0; key < kKeys / 16; ++key) {
#pragma unroll
      for (int i = 0; i < kHeadDim / 16; ++i) {
        uint32_t k[4];
        LoadMatrices(shared + L::kKeysAt + buffer + key * 16 * L::kRowBytes + i * 32, k);
        Multiply<Element>(scores + 8 * key, queries[i], k[0], k[2]);
        Multiply<Element>(scores + 8 * key + 4, queries[i], k[1], k[3]);
      }
    }
    if (step < header.y) {
      MaskScores(scores, shared + L::kExitsAt + step % 2 * kKeys * 4, rows, step * kKeys);
    }
    float rescale[2];
    if (SoftmaxStep(scores, scale_log2, state, rescale)) {
      Rescale(output, rescale);
    }
    uint32_t probabilities[kKeys / 4];
    PackScores<Element>(scores, probabilities);
#pragma unroll
    for (int key = 0; key < kKeys / 16; ++key) {
#pragma unroll
      for (int i = 0; i < kHeadDim / 16; ++i) {
        uint32_t v[4];
        LoadMatricesTransposed(shared + L::kValuesAt + buffer + key * 16 * L::kRowBytes + i * 32,
                               v);
        Multiply<Element>(output + 8 * i, probabilities + 4 * key, v[0], v[1]);
        Multiply<Element>(output + 8 * i + 4, probabilities + 4 * key, v[2], v[3]);
      }
    }
  }
  StoreRows<Element, kHeadDim>(p, first_token, kv_head, state, output);
}

template <typename Element, int kHeadDim>
cudaError_t InitOne() {
  return cudaFuncSetAttribute(PortableKernel<Element, kHeadDim>,
                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                              Layout<kHeadDim>::kBytes);
}

template <typename Element>
cudaError_t Launch(const TreeAttentionParams& params, cudaStream_t stream) {
  const TreeAttentionShape& shape = params.shape;
  Params<Element> p;
  p.q = static_cast<const Element*>(params.q);
  p.k = static_cast<const Element*>(params.k);
  p.v = static_cast<const Element*>(params.v);
  p.out = static_cast<Element*>(params.out);
  p.log_sum_exp = params.log_sum_exp;
  p.q_strides = params.q_strides;
  p.k_strides = params.k_strides;
  p.v_strides = params.v_strides;
  p.out_strides = params.out_strides;
  p.lists = ListsOf(params.workspace, shape, TreeAttentionInstance::kPortable);
  p.num_tokens = shape.num_tokens;
  p.num_kv_heads = shape.num_kv_heads;
  p.group = shape.num_query_heads / shape.num_kv_heads;
  p.log2_padded_group = 0;
  while ((1 << p.log2_padded_group) < p.group) {
    ++p.log2_padded_group;
  }
  p.tile_tokens = QueryTileTokens(shape, TreeAttentionInstance::kPortable);
  p.scale = params.scale;
  const int64_t blocks = int64_t{p.lists.num_query_tiles} * p.num_kv_heads;
  if (blocks > INT32_MAX) {
    return cudaErrorInvalidValue;
  }
  const auto num_blocks = static_cast<int32_t>(blocks);
  return shape.head_dim == 128
             ? LaunchKernel(PortableKernel<Element, 128>,
                            {num_blocks, kThreads, Layout<128>::kBytes}, stream, p)
             : LaunchKernel(PortableKernel<Element, 64>, {num_blocks, kThreads, Layout<64>::kBytes},
                            stream, p);
}

}  // namespace

cudaError_t InitTreeAttentionPortable() {
  for (const auto init : {InitOne<__nv_bfloat16, 64>, InitOne<__nv_bfloat16, 128>,
                          InitOne<__half, 64>, InitOne<__half, 128>}) {
    const cudaError_t error = init();
    if (error != cudaSuccess) {
      return error;
    }
  }
  return cudaSuccess;
}

cudaError_t LaunchTreeAttentionPortable(const TreeAttentionParams& params, cudaStream_t stream) {
  return params.shape.data_type == DataType::kFloat16 ? Launch<__half>(params, stream)
                                                      : Launch<__nv_bfloat16>(params, stream);
}

}  // namespace canopy::kernels
