// The steps that decoder layers are made of, as one interface. core/model/decoder.h decides which
// steps run, in which order and with which weights; an implementation decides how a step is
// computed and where its results are kept:
//
//   torch_layer_ops.h     LibTorch's operators, over any TreeContext
//   training_layer_ops.h  the same, differentiable
//   kernel_layer_ops.h    the kernels of kernels/, over a flat forest
//
// A step is as large as what a kernel can do in one go (norm, projection, head norms and rotary
// embedding together, say), so that neither has to be cut for the other's sake.
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

// A layer, or a part of one, as a function of what it gets alone: residual stream -> residual
// stream.
using LayerFunction = at::Tensor (*)(LayerOps& ops, const LayerWeights& layer,
                                     const at::Tensor& hidden);

// For one forward on one thread. Residual streams are [rows, hidden] in the compute dtype; a step
// may overwrite the stream and the mixer's result that it gets, and what it returns may be
// overwritten by a later step. All steps throw LibTorch's errors.
class LayerOps {
 public:
  virtual ~LayerOps() = default;

  // Starts the forward: returns each token's row of `embedding` [vocab, hidden].
  virtual at::Tensor Embed(const at::Tensor& embedding) = 0;

  // The mixers, one for each alternative of MixerWeights: norm, projections and mixing of the
  // tokens along their paths. `hidden` keeps its values.

  // Each token attends to itself and its ancestors.
  virtual at::Tensor Attend(const at::Tensor& hidden, const at::Tensor& norm,
                            const AttentionWeights& attention) = 0;

  // Returns the rows whose final states the forward returns, in their order. Later steps get these.
  virtual MixedRows ReadRows(const MixedRows& rows) = 0;

  // Returns hidden + mixed x output + bias, if there is one.
  virtual at::Tensor AddOutput(const MixedRows& rows, const at::Tensor& output,
                               const at::Tensor& bias) = 0;

  // The channel steps, one for each alternative of ChannelWeights: each returns `hidden` plus what
  // it makes of its norm.

  virtual at::Tensor AddGatedMlp(const at::Tensor& hidden, const at::Tensor& norm,
                                 const GatedMlpWeights& mlp) = 0;
  virtual at::Tensor AddExperts(const at::Tensor& hidden, const at::Tensor& norm,
                                const ExpertWeights& experts) = 0;

  // Ends the forward: returns the final states.
  virtual at::Tensor FinalNorm(const at::Tensor& hidden, const at::Tensor& norm) = 0;

  // Returns function(*this, layer, hidden). Training may keep no more than the arguments and call
  // the function again in the backward pass.
  virtual at::Tensor Run(LayerFunction function, const LayerWeights& layer,
                         const at::Tensor& hidden) {
    return function(*this, layer, hidden);
  }
};

}  // namespace canopy

#endif  // CORE_MODEL_LAYER_OPS_H_
