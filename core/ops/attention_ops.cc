#include "core/ops/attention_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "ATen/ops/_scaled_dot_product_flash_attention.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/full.h"
#include "ATen/ops/scaled_dot_product_attention.h"

namespace canopy {
namespace {

// Processing queries in blocks limits the lower-right mask to this many rows, and skips keys that
// no query of a block reads.
constexpr int64_t kMaskedQueryBlock = 512;

double Scale(const at::Tensor& q) { return 1.0 / std::sqrt(static_cast<double>(q.size(-1))); }

at::Tensor HeadsFirst(const at::Tensor& tensor) { return tensor.transpose(1, 2); }

// Returns [batch, tokens, query heads, head dim], in which each kv head is repeated for its query
// heads.
at::Tensor ExpandHeads(const at::Tensor& tensor, int64_t query_heads) {
  const int64_t kv_heads = tensor.size(2);
  if (kv_heads == query_heads) {
    return tensor;
  }
  return tensor.unsqueeze(3)
      .expand({-1, -1, -1, query_heads / kv_heads, -1})
      .reshape({tensor.size(0), tensor.size(1), query_heads, tensor.size(3)});
}

// CUDA's flash kernels are the only ones there that share kv heads. They accept 16-bit types
// without a mask.
bool FlashOnCuda(const at::Tensor& q) {
  return q.is_cuda() && q.element_size() == 2 && q.size(-1) % 8 == 0 && q.size(-1) <= 256;
}

at::Tensor Sdpa(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                const std::optional<at::Tensor>& mask, double dropout) {
  const bool shares_heads = q.is_cpu() || (FlashOnCuda(q) && !mask.has_value());
  const at::Tensor keys = shares_heads ? k : ExpandHeads(k, q.size(2));
  const at::Tensor values = shares_heads ? v : ExpandHeads(v, q.size(2));
  return HeadsFirst(at::scaled_dot_product_attention(
      HeadsFirst(q), HeadsFirst(keys), HeadsFirst(values), mask, dropout,
      /*is_causal=*/!mask.has_value(), Scale(q), /*enable_gqa=*/keys.size(2) != q.size(2)));
}

// Returns [queries, keys]: 0 if query i may read key j, that is j <= i + keys - queries, else -inf.
at::Tensor LowerRightMask(int64_t queries, int64_t keys, const at::TensorOptions& options) {
  return at::full({queries, keys}, -std::numeric_limits<double>::infinity(), options)
      .triu_(keys - queries + 1);
}

}  // namespace

at::Tensor CausalAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           double dropout) {
  const int64_t queries = q.size(1);
  const int64_t ancestors = k.size(1) - queries;
  if (ancestors == 0) {
    return Sdpa(q, k, v, std::nullopt, dropout);
  }
  if (FlashOnCuda(q)) {
    // In this internal function, unlike in the public one, causal means aligned to the lower right.
    return HeadsFirst(std::get<0>(at::_scaled_dot_product_flash_attention(
        HeadsFirst(q), HeadsFirst(k), HeadsFirst(v), dropout, /*is_causal=*/true,
        /*return_debug_mask=*/false, Scale(q))));
  }
  std::vector<at::Tensor> blocks;
  for (int64_t begin = 0; begin < queries; begin += kMaskedQueryBlock) {
    const int64_t size = std::min(kMaskedQueryBlock, queries - begin);
    const int64_t keys = ancestors + begin + size;
    blocks.push_back(Sdpa(q.narrow(1, begin, size), k.narrow(1, 0, keys), v.narrow(1, 0, keys),
                          LowerRightMask(size, keys, q.options()), dropout));
  }
  return blocks.size() == 1 ? blocks.front() : at::cat(blocks, 1);
}

at::Tensor SlidingAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            int64_t window, double dropout) {
  const int64_t tokens = q.size(1);
  if (window >= tokens) {
    return CausalAttention(q, k, v, dropout);
  }
  std::vector<at::Tensor> blocks;
  for (int64_t begin = 0; begin < tokens; begin += kMaskedQueryBlock) {
    const int64_t size = std::min(kMaskedQueryBlock, tokens - begin);
    const int64_t first_key = std::max<int64_t>(0, begin - window + 1);
    const int64_t keys = begin + size - first_key;
    // The mask hides key first_key + j from query begin + i if the key is outside the query's
    // window.
    const at::Tensor passed =
        at::full({size, keys}, -std::numeric_limits<double>::infinity(), q.options())
            .tril_(begin - first_key - window);
    blocks.push_back(Sdpa(q.narrow(1, begin, size), k.narrow(1, first_key, keys),
                          v.narrow(1, first_key, keys),
                          LowerRightMask(size, keys, q.options()).add_(passed), dropout));
  }
  return blocks.size() == 1 ? blocks.front() : at::cat(blocks, 1);
}

at::Tensor MaskedAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const at::Tensor& mask, double dropout) {
  return Sdpa(q, k, v, mask, dropout);
}

}  // namespace canopy
