#include "core/model/decoder.h"

#include <cstdint>
#include <utility>

#include "ATen/ops/embedding.h"
#include "ATen/ops/linear.h"
#include "core/model/layers.h"
#include "core/model/rotary.h"

namespace canopy {

Decoder::Decoder(const ModelConfig& config, DecoderWeights weights)
    : config_(config), weights_(std::move(weights)) {}

at::Tensor Decoder::Forward(const TreeContext& context) const {
  at::Tensor hidden = at::embedding(weights_.embedding, context.token_ids());
  for (size_t index = 0; index < weights_.layers.size(); ++index) {
    const LayerWeights& layer = weights_.layers[index];
    at::Tensor attended = Attend(layer, hidden, context);
    if (index + 1 == weights_.layers.size()) {
      // Past the last attention, only the rows that are read need the rest of the layer.
      attended = attended.index_select(0, context.output_slots());
      hidden = hidden.index_select(0, context.output_slots());
    }
    FinishLayer(layer, attended, hidden);
  }
  return RmsNorm(hidden, weights_.final_norm, config_.rms_norm_eps);
}

at::Tensor Decoder::Attend(const LayerWeights& layer, const at::Tensor& hidden,
                           const TreeContext& context) const {
  const int64_t query_heads = config_.num_query_heads;
  const int64_t kv_heads = config_.num_kv_heads;
  const at::Tensor normed = RmsNorm(hidden, layer.input_norm, config_.rms_norm_eps);
  const at::Tensor qkv = at::linear(normed, layer.qkv, layer.qkv_bias)
                             .unflatten(1, {query_heads + 2 * kv_heads, config_.head_dim});
  at::Tensor qk = qkv.narrow(1, 0, query_heads + kv_heads);
  if (layer.qk_norm.defined()) {
    qk = HeadRmsNorm(qk, layer.qk_norm, config_.rms_norm_eps);
  }
  qk = ApplyRotary(qk, context.rotary());
  return context.attention()
      .Forward(qk.narrow(1, 0, query_heads), qk.narrow(1, query_heads, kv_heads),
               qkv.narrow(1, query_heads + kv_heads, kv_heads))
      .flatten(1);
}

void Decoder::FinishLayer(const LayerWeights& layer, const at::Tensor& attended,
                          const at::Tensor& hidden) const {
  // The residual sums happen inside the products: one pass over memory less, one rounding less.
  hidden.addmm_(attended, layer.output.t());
  if (layer.output_bias.defined()) {
    hidden.add_(layer.output_bias);
  }
  const at::Tensor normed = RmsNorm(hidden, layer.post_attention_norm, config_.rms_norm_eps);
  hidden.addmm_(GatedSilu(at::linear(normed, layer.gate_up)), layer.down.t());
}

}  // namespace canopy
