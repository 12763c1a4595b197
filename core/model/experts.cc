#include "core/model/experts.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "ATen/ops/_grouped_mm.h"
#include "ATen/ops/arange.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/empty_like.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/searchsorted.h"
#include "ATen/ops/softmax.h"
#include "ATen/ops/sort.h"
#include "ATen/ops/topk.h"
#include "core/model/layers.h"

namespace canopy {
namespace {

// With eight experts per token and a hidden size of 4,096 in bfloat16, the rows take 512 MiB.
constexpr int64_t kMaxTokensPerChunk = 8192;

at::Tensor MixChunk(const at::Tensor& x, const ExpertWeights& weights,
                    const ExpertsConfig& config) {
  const int64_t tokens = x.size(0);
  const int64_t chosen = config.experts_per_token;
  const at::Tensor shares =
      at::softmax(at::linear(x, weights.router), /*dim=*/1, /*dtype=*/at::kFloat);
  auto [share, expert] = at::topk(shares, chosen, /*dim=*/1);
  if (config.normalize_weights) {
    share = share.div(share.sum(1, /*keepdim=*/true));
  }
  // Row r of the products belongs to pair order[r]. A pair is (token, choice); pairs are numbered
  // token by token.
  const auto [expert_of_row, order] =
      at::sort(expert.flatten(), std::optional<bool>(true), /*dim=*/0);
  const at::Tensor place = at::empty_like(order);
  place.index_copy_(0, order, at::arange(tokens * chosen, order.options()));
  // The end of each expert's rows.
  const at::Tensor ends =
      at::searchsorted(expert_of_row, at::arange(weights.router.size(0), expert_of_row.options()),
                       /*out_int32=*/true, /*right=*/true);
  const at::Tensor rows = x.index_select(0, order.floor_divide(chosen));
  const at::Tensor activated =
      GatedSilu(at::_grouped_mm(rows, weights.gate_up.transpose(1, 2), ends));
  const at::Tensor outputs = at::_grouped_mm(activated, weights.down.transpose(1, 2), ends);
  return outputs.index_select(0, place)
      .unflatten(0, {tokens, chosen})
      .mul_(share.to(x.scalar_type()).unsqueeze(2))
      .sum(1);
}

}  // namespace

at::Tensor MixExperts(const at::Tensor& x, const ExpertWeights& weights,
                      const ExpertsConfig& config) {
  if (x.size(0) == 0) {
    return at::empty_like(x);
  }
  std::vector<at::Tensor> chunks;
  for (int64_t begin = 0; begin < x.size(0); begin += kMaxTokensPerChunk) {
    const int64_t size = std::min(kMaxTokensPerChunk, x.size(0) - begin);
    chunks.push_back(MixChunk(x.narrow(0, begin, size), weights, config));
  }
  return chunks.size() == 1 ? chunks.front() : at::cat(chunks);
}

}  // namespace canopy
