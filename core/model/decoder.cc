#include "core/model/decoder.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "ATen/ops/embedding.h"
#include "ATen/ops/linear.h"
#include "core/model/attention_backend.h"
#include "core/model/experts.h"
#include "core/model/layers.h"
#include "core/model/rotary.h"
#include "core/ops/recompute.h"

namespace canopy {
namespace {

// hidden [tokens, hidden] -> attention output before its projection, [tokens, query size].
at::Tensor Attend(const ModelConfig& config, const LayerWeights& layer, const TreeContext& context,
                  const AttentionBackend& attention, const at::Tensor& hidden) {
  const int64_t query_heads = config.num_query_heads;
  const int64_t kv_heads = config.num_kv_heads;
  const at::Tensor normed = RmsNorm(hidden, layer.input_norm, config.rms_norm_eps);
  const at::Tensor qkv = at::linear(normed, layer.qkv, layer.qkv_bias)
                             .unflatten(1, {query_heads + 2 * kv_heads, config.head_dim});
  at::Tensor qk = qkv.narrow(1, 0, query_heads + kv_heads);
  if (layer.qk_norm.defined()) {
    qk = HeadRmsNorm(qk, layer.qk_norm, config.rms_norm_eps);
  }
  // Under autocast the products are narrower than the tables.
  qk = context.training().has_value()
           ? ApplyRotaryForTraining(qk, context.rotary()).to(qkv.scalar_type())
           : ApplyRotary(qk, context.rotary());
  return attention
      .Forward(qk.narrow(1, 0, query_heads), qk.narrow(1, query_heads, kv_heads),
               qkv.narrow(1, query_heads + kv_heads, kv_heads))
      .flatten(1);
}

// The attention's projection and then the MLP added to `hidden`, in place; both [rows, ...].
void FinishInPlace(const ModelConfig& config, const LayerWeights& layer, const at::Tensor& attended,
                   const at::Tensor& hidden) {
  // The residual sums happen inside the products: one pass over memory less, one rounding less.
  hidden.addmm_(attended, layer.output.t());
  if (layer.output_bias.defined()) {
    hidden.add_(layer.output_bias);
  }
  const at::Tensor normed = RmsNorm(hidden, layer.post_attention_norm, config.rms_norm_eps);
  if (layer.experts.router.defined()) {
    hidden.add_(MixExperts(normed, layer.experts, config.experts));
  } else {
    hidden.addmm_(GatedSilu(at::linear(normed, layer.gate_up)), layer.down.t());
  }
}

// The same sum as a new tensor: `hidden` is kept for the backward pass.
at::Tensor FinishForTraining(const ModelConfig& config, const LayerWeights& layer,
                             const at::Tensor& attended, const at::Tensor& hidden) {
  const at::Tensor sum = hidden.add(at::linear(attended, layer.output, layer.output_bias));
  const at::Tensor normed = RmsNorm(sum, layer.post_attention_norm, config.rms_norm_eps);
  return sum.add(layer.experts.router.defined()
                     ? MixExperts(normed, layer.experts, config.experts)
                     : at::linear(GatedSilu(at::linear(normed, layer.gate_up)), layer.down));
}

// Layer `index`, [tokens, hidden] -> the same, or the output slots' rows after the last layer.
at::Tensor RunLayer(const ModelConfig& config, int64_t index, const LayerWeights& layer,
                    const TreeContext& context, at::Tensor hidden) {
  const AttentionBackend& attention =
      config.slides(index) ? context.sliding_attention() : context.attention();
  at::Tensor attended = Attend(config, layer, context, attention, hidden);
  if (index + 1 == config.num_layers) {
    // Past the last attention, only the rows that are read need the rest of the layer.
    attended = attended.index_select(0, context.output_slots());
    hidden = hidden.index_select(0, context.output_slots());
  }
  if (context.training().has_value()) {
    return FinishForTraining(config, layer, attended, hidden);
  }
  FinishInPlace(config, layer, attended, hidden);
  return hidden;
}

// RunLayer that keeps `hidden` alone of what it computes.
at::Tensor RunLayerTwice(const ModelConfig& config, int64_t index, const LayerWeights& layer,
                         const TreeContext& context, const at::Tensor& hidden) {
  std::vector<at::Tensor> inputs = TensorsOf(layer);
  inputs.push_back(hidden);
  // Owns all it uses: the backward pass comes when this forward is long gone.
  return RecomputeInBackward(
             [config, index, context](const std::vector<at::Tensor>& tensors) {
               return std::vector{
                   RunLayer(config, index, LayerOf(tensors), context, tensors.back())};
             },
             inputs)
      .front();
}

}  // namespace

Decoder::Decoder(const ModelConfig& config, DecoderWeights weights)
    : config_(config), weights_(std::move(weights)) {}

at::Tensor Decoder::Forward(const TreeContext& context) const {
  const bool recomputes = context.training().has_value() && context.training()->recompute_layers;
  at::Tensor hidden = at::embedding(weights_.embedding, context.token_ids());
  for (int64_t index = 0; index < config_.num_layers; ++index) {
    const LayerWeights& layer = weights_.layers[static_cast<size_t>(index)];
    hidden = recomputes ? RunLayerTwice(config_, index, layer, context, hidden)
                        : RunLayer(config_, index, layer, context, hidden);
  }
  return RmsNorm(hidden, weights_.final_norm, config_.rms_norm_eps);
}

}  // namespace canopy
