#include "core/model/torch_layer_ops.h"

#include <cstdint>

#include "ATen/ops/embedding.h"
#include "ATen/ops/linear.h"
#include "core/model/attention_backend.h"
#include "core/model/experts.h"
#include "core/model/layers.h"

namespace canopy {

TorchLayerOps::TorchLayerOps(const ModelConfig& config, const TreeContext& context)
    : config_(config), context_(context) {}

at::Tensor TorchLayerOps::Embed(const at::Tensor& embedding) {
  return at::embedding(embedding, context_.token_ids());
}

at::Tensor TorchLayerOps::Attend(const at::Tensor& hidden, const at::Tensor& norm,
                                 const AttentionWeights& attention) {
  const int64_t query_heads = config_.num_query_heads;
  const int64_t kv_heads = config_.num_kv_heads;
  const HeadProjection& heads = attention.heads;
  const at::Tensor normed = RmsNorm(hidden, norm, config_.rms_norm_eps);
  const at::Tensor qkv = at::linear(normed, heads.weight, heads.bias)
                             .unflatten(1, {query_heads + 2 * kv_heads, config_.head_dim});
  at::Tensor qk = qkv.narrow(1, 0, query_heads + kv_heads);
  if (heads.qk_norm.defined()) {
    qk = HeadRmsNorm(qk, heads.qk_norm, config_.rms_norm_eps);
  }
  qk = Rotate(qk, qkv.scalar_type());
  const AttentionBackend& backend =
      attention.slides ? context_.sliding_attention() : context_.attention();
  return backend
      .Forward(qk.narrow(1, 0, query_heads), qk.narrow(1, query_heads, kv_heads),
               qkv.narrow(1, query_heads + kv_heads, kv_heads))
      .flatten(1);
}

MixedRows TorchLayerOps::ReadRows(const MixedRows& rows) {
  const at::Tensor& slots = context_.output_slots();
  return {rows.hidden.index_select(0, slots), rows.mixed.index_select(0, slots)};
}

at::Tensor TorchLayerOps::AddOutput(const MixedRows& rows, const at::Tensor& output,
                                    const at::Tensor& bias) {
  return AddProductTo(rows.hidden, rows.mixed, output, bias);
}

at::Tensor TorchLayerOps::AddGatedMlp(const at::Tensor& hidden, const at::Tensor& norm,
                                      const GatedMlpWeights& mlp) {
  const at::Tensor normed = RmsNorm(hidden, norm, config_.rms_norm_eps);
  return AddProductTo(hidden, GatedSilu(at::linear(normed, mlp.gate_up)), mlp.down, /*bias=*/{});
}

at::Tensor TorchLayerOps::AddExperts(const at::Tensor& hidden, const at::Tensor& norm,
                                     const ExpertWeights& experts) {
  const at::Tensor normed = RmsNorm(hidden, norm, config_.rms_norm_eps);
  return AddTo(hidden, MixExperts(normed, experts, config_.experts));
}

at::Tensor TorchLayerOps::FinalNorm(const at::Tensor& hidden, const at::Tensor& norm) {
  return RmsNorm(hidden, norm, config_.rms_norm_eps);
}

at::Tensor TorchLayerOps::Rotate(const at::Tensor& heads, at::ScalarType /*type*/) const {
  return ApplyRotary(heads, rotary());
}

at::Tensor TorchLayerOps::AddProductTo(const at::Tensor& hidden, const at::Tensor& rows,
                                       const at::Tensor& weight, const at::Tensor& bias) const {
  AddProduct(rows, weight, bias, hidden);
  return hidden;
}

at::Tensor TorchLayerOps::AddTo(const at::Tensor& hidden, const at::Tensor& rows) const {
  return hidden.add_(rows);
}

}  // namespace canopy
