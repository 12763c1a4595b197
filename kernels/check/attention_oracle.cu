#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/check/attention_oracle.h"
#include "kernels/check/device_buffer.h"

namespace canopy::kernels::check {
namespace {

constexpr int kThreads = 256;

__device__ uint32_t Mix(uint32_t value) {
  value ^= value >> 16;
  value *= 0x7FEB352D;
  value ^= value >> 15;
  value *= 0x846CA68B;
  return value ^ (value >> 16);
}

template <typename Element>
__device__ Element Round(float value) {
  if constexpr (std::is_same_v<Element, __half>) {
    return __float2half_rn(value);
  } else {
    return __float2bfloat16_rn(value);
  }
}
__device__ float ToFloat(__half value) { return __half2float(value); }
__device__ float ToFloat(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename Element>
__global__ void FillKernel(FillParams p) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i >= int64_t{p.num_tokens} * p.num_heads * p.head_dim) {
    return;
  }
  const int64_t token = i / p.head_dim / p.num_heads;
  const int64_t head = i / p.head_dim % p.num_heads;
  // The sum of four uniform values of variance 1/12 each is approximately normal.
  float sum = 0;
  for (uint32_t j = 0; j < 4; ++j) {
    const uint32_t bits = Mix(Mix(static_cast<uint32_t>(i) * 4 + j) ^ p.seed);
    sum += static_cast<float>(bits) * 0x1p-32F - 0.5F;
  }
  static_cast<Element*>(p.data)[token * p.strides.token + head * p.strides.head + i % p.head_dim] =
      Round<Element>(sum * 1.7320508F * p.amplitude);
}

template <typename Element>
struct Rows {
  const Element* q;
  const Element* k;
  const Element* v;
  const int32_t* exit;
  TreeAttentionParams p;
};

// Uses one warp per query row; a lane holds every 32nd element.
template <typename Element>
__global__ void OracleKernel(Rows<Element> rows, Oracle oracle) {
  const TreeAttentionParams& p = rows.p;
  const int32_t lane = threadIdx.x % 32;
  const int64_t row = (blockIdx.x * int64_t{kThreads} + threadIdx.x) / 32;
  const int32_t heads = p.shape.num_query_heads;
  if (row >= int64_t{p.shape.num_tokens} * heads) {
    return;
  }
  const auto token = static_cast<int32_t>(row / heads);
  const auto head = static_cast<int32_t>(row % heads);
  const int32_t kv_head = head / (heads / p.shape.num_kv_heads);
  const int32_t dim = p.shape.head_dim;
  const int32_t parts = dim / 32;
  const auto sum_lanes = [](auto value) {
    for (int offset = 16; offset > 0; offset /= 2) {
      value += __shfl_xor_sync(0xFFFFFFFF, value, offset);
    }
    return value;
  };
  double q[4];
  for (int i = 0; i < parts; ++i) {
    q[i] = ToFloat(rows.q[token * p.q_strides.token + head * p.q_strides.head + lane + 32 * i]);
  }
  const auto score = [&](int32_t key) {
    const Element* k = rows.k + key * p.k_strides.token + kv_head * p.k_strides.head + lane;
    double sum = 0;
    for (int i = 0; i < parts; ++i) {
      sum += q[i] * static_cast<double>(ToFloat(k[32 * i]));
    }
    return sum_lanes(sum) * static_cast<double>(p.scale);
  };
  const auto value = [&](int32_t key, int i) {
    return ToFloat(rows.v[key * p.v_strides.token + kv_head * p.v_strides.head + lane + 32 * i]);
  };

  double max = -1e300;
  double sum = 0;
  double out[4] = {};
  float plain_max = -INFINITY;
  for (int32_t key = 0; key <= token; ++key) {
    if (rows.exit[key] < token) {
      continue;
    }
    const double s = score(key);
    plain_max = fmaxf(plain_max, ToFloat(Round<Element>(static_cast<float>(s))));
    const double new_max = fmax(max, s);
    const double keep = exp(max - new_max);
    const double weight = exp(s - new_max);
    sum = sum * keep + weight;
    for (int i = 0; i < parts; ++i) {
      out[i] = out[i] * keep + weight * static_cast<double>(value(key, i));
    }
    max = new_max;
  }
  for (int i = 0; i < parts; ++i) {
    oracle.exact[row * dim + lane + 32 * i] = out[i] / sum;
  }
  if (lane == 0) {
    oracle.log_sum_exp[row] = max + log(sum);
  }

  float plain_sum = 0;
  float plain[4] = {};
  for (int pass = 0; pass < 2; ++pass) {
    for (int32_t key = 0; key <= token; ++key) {
      if (rows.exit[key] < token) {
        continue;
      }
      const float s = ToFloat(Round<Element>(static_cast<float>(score(key))));
      const float weight = expf(s - plain_max);
      if (pass == 0) {
        plain_sum += weight;
        continue;
      }
      const float probability = ToFloat(Round<Element>(weight / plain_sum));
      for (int i = 0; i < parts; ++i) {
        plain[i] += probability * value(key, i);
      }
    }
  }
  for (int i = 0; i < parts; ++i) {
    oracle.plain[row * dim + lane + 32 * i] = ToFloat(Round<Element>(plain[i]));
  }
}

template <typename Element>
__global__ void CompareKernel(TreeAttentionParams p, Oracle oracle, Comparison* result) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  const int32_t heads = p.shape.num_query_heads;
  const int32_t dim = p.shape.head_dim;
  if (i >= int64_t{p.shape.num_tokens} * heads * dim) {
    return;
  }
  const int64_t row = i / dim;
  const double out = ToFloat(static_cast<const Element*>(
      p.out)[row / heads * p.out_strides.token + row % heads * p.out_strides.head + i % dim]);
  const double exact = oracle.exact[i];
  const double error = out - exact;
  const double plain_error = oracle.plain[i] - exact;
  auto* not_finite = reinterpret_cast<unsigned long long*>(&result->not_finite);
  if (!isfinite(out)) {
    atomicAdd(not_finite, 1ULL);
  } else {
    atomicAdd(&result->error_squared, error * error);
  }
  atomicAdd(&result->plain_error_squared, plain_error * plain_error);
  atomicAdd(&result->exact_squared, exact * exact);
  if (i % dim == 0) {
    const double lse_error =
        fabs(static_cast<double>(p.log_sum_exp[row]) - oracle.log_sum_exp[row]);
    if (!isfinite(lse_error)) {
      atomicAdd(not_finite, 1ULL);
    }
    // Non-negative doubles have the same order as their bits.
    atomicMax(reinterpret_cast<unsigned long long*>(&result->lse_error),
              static_cast<unsigned long long>(__double_as_longlong(lse_error)));
  }
}

__global__ void DifferentKernel(const uint32_t* a, const uint32_t* b, int64_t count,
                                unsigned long long* different) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i < count && a[i] != b[i]) {
    atomicAdd(different, 1ULL);
  }
}

int32_t Blocks(int64_t threads) {
  return static_cast<int32_t>((threads + kThreads - 1) / kThreads);
}

// Calls `visit` with a null pointer to the 16-bit type.
template <typename Visit>
void Dispatch(DataType type, Visit visit) {
  if (type == DataType::kFloat16) {
    visit(static_cast<__half*>(nullptr));
  } else {
    visit(static_cast<__nv_bfloat16*>(nullptr));
  }
}

}  // namespace

void Fill(const FillParams& params) {
  const int64_t count = int64_t{params.num_tokens} * params.num_heads * params.head_dim;
  Dispatch(params.data_type, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    FillKernel<Element><<<Blocks(count), kThreads>>>(params);
  });
  Require(cudaGetLastError(), "Fill");
}

void RunOracle(const TreeAttentionParams& params, const int32_t* exit, const Oracle& oracle) {
  const int64_t rows = int64_t{params.shape.num_tokens} * params.shape.num_query_heads;
  Dispatch(params.shape.data_type, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    const Rows<Element> inputs{static_cast<const Element*>(params.q),
                               static_cast<const Element*>(params.k),
                               static_cast<const Element*>(params.v), exit, params};
    OracleKernel<Element><<<Blocks(rows * 32), kThreads>>>(inputs, oracle);
  });
  Require(cudaGetLastError(), "RunOracle");
}

Comparison Compare(const TreeAttentionParams& params, const Oracle& oracle) {
  static DeviceBuffer<Comparison> result(1);
  const int64_t count =
      int64_t{params.shape.num_tokens} * params.shape.num_query_heads * params.shape.head_dim;
  result.Upload({Comparison()});
  Dispatch(params.shape.data_type, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    CompareKernel<Element><<<Blocks(count), kThreads>>>(params, oracle, result.get());
  });
  Require(cudaGetLastError(), "Compare");
  return result.Download(1)[0];
}

int64_t CountDifferent(const void* a, const void* b, int64_t count) {
  static DeviceBuffer<unsigned long long> different(1);
  different.Upload({0});
  DifferentKernel<<<Blocks(count), kThreads>>>(
      static_cast<const uint32_t*>(a), static_cast<const uint32_t*>(b), count, different.get());
  Require(cudaGetLastError(), "CountDifferent");
  return static_cast<int64_t>(different.Download(1)[0]);
}

}  // namespace canopy::kernels::check
