// The decoder's steps with LibTorch's operators, for inference on the path, dense and segmented
// backends, on any device and in any dtype.
#ifndef CORE_MODEL_TORCH_LAYER_OPS_H_
#define CORE_MODEL_TORCH_LAYER_OPS_H_

#include "ATen/core/Tensor.h"
#include "core/checkpoint/model_config.h"
#include "core/model/layer_ops.h"
#include "core/model/rotary.h"
#include "core/model/tree_context.h"
#include "core/model/weights.h"

namespace canopy {

// Owns everything that it uses except the weights, so a copy may outlive the forward. ReadRows
// reads the context's output slots. Call in inference mode.
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
  // Training overrides the steps below with versions that do not overwrite their inputs.

  // Returns query and key heads rotated by the angles of their tokens, in dtype `type`.
  virtual at::Tensor Rotate(const at::Tensor& heads, at::ScalarType type) const;
  // Returns hidden + rows x weight, plus bias if it is defined.
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
