// The decoder's steps with the kernels in kernels/, over a flat forest. They need no padding, no
// mask and no gathered copies of keys. Within a layer, only AddExperts and ReadRows allocate
// memory.
#ifndef CORE_MODEL_KERNEL_LAYER_OPS_H_
#define CORE_MODEL_KERNEL_LAYER_OPS_H_

#include "ATen/core/Tensor.h"
#include "core/model/layer_ops.h"
#include "core/model/model_kernels.h"
#include "core/model/weights.h"
#include "core/ops/kernel_ops.h"

namespace canopy {

// A flat forest on the device. Tensors are [tokens] int32.
struct DeviceForest {
  at::Tensor token_ids;
  at::Tensor position_ids;
  at::Tensor exit;
  ForestShape shape;
};

// Layers attend to all ancestors: AttentionWeights::slides is not supported. Every step except
// AddExperts is safe under graph capture. Call in inference mode.
class KernelLayerOps final : public LayerOps {
 public:
  // `kernels` and `forest` must outlive the object. `buffers` have a row for each token, and their
  // contents are overwritten. `slots` [outputs] int32 are the rows to read; they may be undefined
  // if ReadRows is not called.
  KernelLayerOps(const ModelKernels& kernels, const DeviceForest& forest,
                 const LayerBuffers& buffers, const at::Tensor& slots);

  at::Tensor Embed(const at::Tensor& embedding) override;
  at::Tensor Attend(const at::Tensor& hidden, const at::Tensor& norm,
                    const AttentionWeights& attention) override;
  // Switches later steps to buffers with a row for each slot that is read.
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
  LayerBuffers buffers_;  // rows of all tokens; after ReadRows, rows that are read
  at::Tensor visible_;    // result of ListVisible; set by Embed
};

}  // namespace canopy

#endif  // CORE_MODEL_KERNEL_LAYER_OPS_H_
