#include "core/training/training_layer_ops.h"

#include <utility>
#include <vector>

#include "ATen/ops/linear.h"
#include "core/model/rotary.h"
#include "core/ops/recompute.h"

namespace canopy {

TrainingLayerOps::TrainingLayerOps(const ModelConfig& config, const TreeContext& context,
                                   bool recomputes)
    : TorchLayerOps(config, context), recomputes_(recomputes) {}

at::Tensor TrainingLayerOps::Run(LayerFunction function, const LayerWeights& layer,
                                 const at::Tensor& hidden) {
  if (!recomputes_) {
    return function(*this, layer, hidden);
  }
  std::vector<at::Tensor> inputs = TensorsOf(layer);
  // The function owns what it uses, because the backward pass may run long after this forward. It
  // captures no weights, because they are among the inputs.
  LayerWeights kinds = WithTensors(layer, std::vector<at::Tensor>(inputs.size()));
  inputs.push_back(hidden);
  return RecomputeInBackward(
             [ops = *this, function,
              kinds = std::move(kinds)](const std::vector<at::Tensor>& tensors) {
               TrainingLayerOps again = ops;
               return std::vector{function(again, WithTensors(kinds, tensors), tensors.back())};
             },
             inputs)
      .front();
}

// Under autocast the heads have a narrower dtype than the tables, so the result is converted to
// `type`.
at::Tensor TrainingLayerOps::Rotate(const at::Tensor& heads, at::ScalarType type) const {
  return ApplyRotaryForTraining(heads, rotary()).to(type);
}

at::Tensor TrainingLayerOps::AddProductTo(const at::Tensor& hidden, const at::Tensor& rows,
                                          const at::Tensor& weight, const at::Tensor& bias) const {
  return hidden.add(at::linear(rows, weight.t(), bias));
}

at::Tensor TrainingLayerOps::AddTo(const at::Tensor& hidden, const at::Tensor& rows) const {
  return hidden.add(rows);
}

}  // namespace canopy
