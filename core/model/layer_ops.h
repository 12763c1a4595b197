// The steps of decoder layers as an interface. core/model/decoder.h decides which steps run, in
// which order and with which weights. An implementation decides how a step is computed and where
// its results are stored:
//
//   torch_layer_ops.h     LibTorch's operators, over any TreeContext
//   training_layer_ops.h  the same operators, differentiable
//   kernel_layer_ops.h    the kernels in kernels/, over a flat forest
//
// A step is the largest unit that an implementation may compute with one kernel. For example, the
// norm, projection, head norms and rotary embedding of attention are one step.
#ifndef CORE_MODEL_LAYER_OPS_H_
#define CORE_MODEL_LAYER_OPS_H_

#include "ATen/core/Tensor.h"
#include "core/model/weights.h"

namespace canopy {

class LayerOps;

// The rows of a forward between a layer's mixer and the rest of that layer.
struct MixedRows {
  at::Tensor hidden;  // [rows, hidden], the residual stream
  at::Tensor mixed;   // [rows, columns of the mixer], before the output projection
};

// A layer or a part of one, as a pure function of its arguments: residual stream -> residual
// stream.
using LayerFunction = at::Tensor (*)(LayerOps& ops, const LayerWeights& layer,
                                     const at::Tensor& hidden);

// The steps of one forward on one thread. Residual streams are [rows, hidden] in the compute dtype.
// A step may overwrite its input stream and its input from the mixer; a later step may overwrite
// its result. All steps throw LibTorch's errors.
class LayerOps {
 public:
  virtual ~LayerOps() = default;

  // Starts the forward: returns each token's row of `embedding` [vocab, hidden].
  virtual at::Tensor Embed(const at::Tensor& embedding) = 0;

  // There is one mixer step for each alternative of MixerWeights: norm, projections and mixing of
  // the tokens along their paths. Mixer steps do not change `hidden`.

  // Each token attends to itself and its ancestors.
  virtual at::Tensor Attend(const at::Tensor& hidden, const at::Tensor& norm,
                            const AttentionWeights& attention) = 0;

  // Returns the rows whose final states the forward returns, in their order. Later steps get only
  // these rows.
  virtual MixedRows ReadRows(const MixedRows& rows) = 0;

  // Returns hidden + mixed x output, plus bias if it is defined.
  virtual at::Tensor AddOutput(const MixedRows& rows, const at::Tensor& output,
                               const at::Tensor& bias) = 0;

  // There is one channel step for each alternative of ChannelWeights. It returns `hidden` plus a
  // function of its norm.

  virtual at::Tensor AddGatedMlp(const at::Tensor& hidden, const at::Tensor& norm,
                                 const GatedMlpWeights& mlp) = 0;
  virtual at::Tensor AddExperts(const at::Tensor& hidden, const at::Tensor& norm,
                                const ExpertWeights& experts) = 0;

  // Ends the forward: returns the final states.
  virtual at::Tensor FinalNorm(const at::Tensor& hidden, const at::Tensor& norm) = 0;

  // Returns function(*this, layer, hidden). In training this may keep only the arguments, and call
  // the function again in the backward pass.
  virtual at::Tensor Run(LayerFunction function, const LayerWeights& layer,
                         const at::Tensor& hidden) {
    return function(*this, layer, hidden);
  }
};

}  // namespace canopy

#endif  // CORE_MODEL_LAYER_OPS_H_
