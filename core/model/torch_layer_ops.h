// The decoder's steps through LibTorch's operators, for inference with the backends path, dense and
// segmented, on any device and in any type.
#ifndef CORE_MODEL_TORCH_LAYER_OPS_H_
#define CORE_MODEL_TORCH_LAYER_OPS_H_

#include "ATen/core/Tensor.h"
#include "core/checkpoint/model_config.h"
#include "core/model/layer_ops.h"
#include "core/model/rotary.h"
#include "core/model/tree_context.h"
#include "core/model/weights.h"

namespace canopy {

// Owns all that it uses but the weights, so a copy may outlive the forward. Reads the rows at the
// context's output slots. Call in inference mode.
class TorchLayerOps : public LayerOps {
 public:
  TorchLayerOps(const ModelConfig& config, const TreeContext& context);

  at::Tensor Embed(const at::Tensor& embedding) override;
  at::Tensor Attend(const at::Tensor& hidden, const at::Tensor& norm,
                    const AttentionWeights& attention) override;
  MixedRows ReadRows(const MixedRows& rows) override;
  at::Tensor AddOutput(const MixedRows& rows, const at::Tensor& output,
                       const at::Tensor& bias) override;
  at::Tensor AddGatedMlp(const at::Tensor& hidden, const at::Tensor& norm,
                         const GatedMlpWeights& mlp) override;
  at::Tensor AddExperts(const at::Tensor& hidden, const at::Tensor& norm,
                        const ExpertWeights& experts) override;
  at::Tensor FinalNorm(const at::Tensor& hidden, const at::Tensor& norm) override;

 protected:
  // Training overrides these, because it may overwrite nothing.

  // Returns query and key heads rotated by their tokens' angles, in `type`.
  virtual at::Tensor Rotate(const at::Tensor& heads, at::ScalarType type) const;
  // Returns hidden + rows x weight + bias, if there is one.
  virtual at::Tensor AddProductTo(const at::Tensor& hidden, const at::Tensor& rows,
                                  const at::Tensor& weight, const at::Tensor& bias) const;
  // Returns hidden + rows.
  virtual at::Tensor AddTo(const at::Tensor& hidden, const at::Tensor& rows) const;

  const RotaryTables& rotary() const { return context_.rotary(); }

 private:
  ModelConfig config_;
  TreeContext context_;
};

}  // namespace canopy

#endif  // CORE_MODEL_TORCH_LAYER_OPS_H_
