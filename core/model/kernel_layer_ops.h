// The decoder's steps through the kernels of kernels/, over a flat forest: no padding, no mask, no
// gathered keys in memory, and no memory allocated in a layer but by the mixture of experts.
#ifndef CORE_MODEL_KERNEL_LAYER_OPS_H_
#define CORE_MODEL_KERNEL_LAYER_OPS_H_

#include "ATen/core/Tensor.h"
#include "core/model/layer_ops.h"
#include "core/model/model_kernels.h"
#include "core/model/weights.h"
#include "core/ops/kernel_ops.h"

namespace canopy {

// A flat forest on the device, [tokens] int32 each.
struct DeviceForest {
  at::Tensor token_ids;
  at::Tensor position_ids;
  at::Tensor exit;
  ForestShape shape;
};

// Layers attend to all ancestors: AttentionWeights::slides is not supported. Every step is safe
// under graph capture but AddExperts. Call in inference mode.
class KernelLayerOps final : public LayerOps {
 public:
  // `kernels` and `forest` must outlive the object. `buffers` have a row for each token and what
  // they hold is overwritten. `slots` [outputs] int32 are the rows to read; undefined if ReadRows
  // is not called.
  KernelLayerOps(const ModelKernels& kernels, const DeviceForest& forest,
                 const LayerBuffers& buffers, const at::Tensor& slots);

  at::Tensor Embed(const at::Tensor& embedding) override;
  at::Tensor Attend(const at::Tensor& hidden, const at::Tensor& norm,
                    const AttentionWeights& attention) override;
  // Makes the later steps use buffers of fewer rows.
  MixedRows ReadRows(const MixedRows& rows) override;
  at::Tensor AddOutput(const MixedRows& rows, const at::Tensor& output,
                       const at::Tensor& bias) override;
  at::Tensor AddGatedMlp(const at::Tensor& hidden, const at::Tensor& norm,
                         const GatedMlpWeights& mlp) override;
  at::Tensor AddExperts(const at::Tensor& hidden, const at::Tensor& norm,
                        const ExpertWeights& experts) override;
  at::Tensor FinalNorm(const at::Tensor& hidden, const at::Tensor& norm) override;

 private:
  const ModelKernels& kernels_;
  const KernelOps& ops_;
  const DeviceForest& forest_;
  const at::Tensor slots_;
  LayerBuffers buffers_;  // those of the tokens, from ReadRows on those of the rows that are read
  at::Tensor visible_;    // as ListVisible returned it; set by Embed
};

}  // namespace canopy

#endif  // CORE_MODEL_KERNEL_LAYER_OPS_H_
