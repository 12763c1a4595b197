#include "core/model/kernel_layer_ops.h"

#include <algorithm>
#include <cstdint>

#include "core/model/experts.h"
#include "core/model/layers.h"

namespace canopy {

KernelLayerOps::KernelLayerOps(const ModelKernels& kernels, const DeviceForest& forest,
                               const LayerBuffers& buffers, const at::Tensor& slots)
    : kernels_(kernels), ops_(kernels.ops()), forest_(forest), slots_(slots), buffers_(buffers) {}

at::Tensor KernelLayerOps::Embed(const at::Tensor& embedding) {
  visible_ = ops_.ListVisible(forest_.exit, forest_.shape);
  ops_.GatherRows(embedding, forest_.token_ids, buffers_.hidden);
  return buffers_.hidden;
}

at::Tensor KernelLayerOps::Attend(const at::Tensor& hidden, const at::Tensor& norm,
                                  const AttentionWeights& attention) {
  ops_.RmsNorm(hidden, norm, buffers_.normed);
  ops_.ProjectHeads(buffers_.normed, attention.heads, forest_.position_ids, buffers_.qkv);
  ops_.TreeAttention(buffers_.qkv, visible_, forest_.shape, buffers_.mixed);
  return buffers_.mixed;
}

MixedRows KernelLayerOps::ReadRows(const MixedRows& rows) {
  visible_.reset();
  buffers_ = kernels_.MakeFinishBuffers(slots_.size(0));
  ops_.GatherRows(rows.hidden, slots_, buffers_.hidden);
  ops_.GatherRows(rows.mixed, slots_, buffers_.mixed);
  return {buffers_.hidden, buffers_.mixed};
}

at::Tensor KernelLayerOps::AddOutput(const MixedRows& rows, const at::Tensor& output,
                                     const at::Tensor& bias) {
  AddProduct(rows.mixed, output, bias, rows.hidden);
  return rows.hidden;
}

at::Tensor KernelLayerOps::AddGatedMlp(const at::Tensor& hidden, const at::Tensor& norm,
                                       const GatedMlpWeights& mlp) {
  ops_.RmsNorm(hidden, norm, buffers_.normed);
  const int64_t num_rows = hidden.size(0);
  const int64_t step = buffers_.activated.size(0);
  for (int64_t begin = 0; begin < num_rows; begin += step) {
    const int64_t rows = std::min(step, num_rows - begin);
    const at::Tensor activated = buffers_.activated.narrow(0, 0, rows);
    ops_.GatedProduct(buffers_.normed.narrow(0, begin, rows), mlp.gate_up,
                      buffers_.gate_up.narrow(0, 0, rows), activated);
    AddProduct(activated, mlp.down, /*bias=*/{}, hidden.narrow(0, begin, rows));
  }
  return hidden;
}

at::Tensor KernelLayerOps::AddExperts(const at::Tensor& hidden, const at::Tensor& norm,
                                      const ExpertWeights& experts) {
  ops_.RmsNorm(hidden, norm, buffers_.normed);
  hidden.add_(MixExperts(buffers_.normed, experts, kernels_.experts()));
  return hidden;
}

at::Tensor KernelLayerOps::FinalNorm(const at::Tensor& hidden, const at::Tensor& norm) {
  ops_.RmsNorm(hidden, norm, buffers_.normed);
  return buffers_.normed;
}

}  // namespace canopy
