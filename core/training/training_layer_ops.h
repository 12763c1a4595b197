// The decoder's steps with LibTorch's operators, differentiable with respect to weights and inputs.
#ifndef CORE_TRAINING_TRAINING_LAYER_OPS_H_
#define CORE_TRAINING_TRAINING_LAYER_OPS_H_

#include "ATen/core/Tensor.h"
#include "core/checkpoint/model_config.h"
#include "core/model/torch_layer_ops.h"
#include "core/model/tree_context.h"
#include "core/model/weights.h"

namespace canopy {

// Does not overwrite tensors that a backward pass reads, and works under autocast. Dropout is part
// of the context's attention.
class TrainingLayerOps final : public TorchLayerOps {
 public:
  // If `recomputes` is true, each layer keeps only its input and runs again in the backward pass.
  TrainingLayerOps(const ModelConfig& config, const TreeContext& context, bool recomputes);

  at::Tensor Run(LayerFunction function, const LayerWeights& layer,
                 const at::Tensor& hidden) override;

 private:
  at::Tensor Rotate(const at::Tensor& heads, at::ScalarType type) const override;
  at::Tensor AddProductTo(const at::Tensor& hidden, const at::Tensor& rows,
                          const at::Tensor& weight, const at::Tensor& bias) const override;
  at::Tensor AddTo(const at::Tensor& hidden, const at::Tensor& rows) const override;

  bool recomputes_;
};

}  // namespace canopy

#endif  // CORE_TRAINING_TRAINING_LAYER_OPS_H_
