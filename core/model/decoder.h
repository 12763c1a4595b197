// The decoder, written once for every family, attention backend and use.
#ifndef CORE_MODEL_DECODER_H_
#define CORE_MODEL_DECODER_H_

#include "ATen/core/Tensor.h"
#include "core/checkpoint/model_config.h"
#include "core/model/tree_context.h"
#include "core/model/weights.h"

namespace canopy {

// Immutable. One forward at a time.
class Decoder {
 public:
  Decoder(const ModelConfig& config, DecoderWeights weights);

  // Final-norm hidden states [outputs, hidden] at the context's output slots, in its order and in
  // the compute dtype. For a context with training options, differentiable by the weights; else
  // call in inference mode. Throws LibTorch's errors.
  at::Tensor Forward(const TreeContext& context) const;

  const DecoderWeights& weights() const { return weights_; }

 private:
  const ModelConfig config_;
  const DecoderWeights weights_;
};

}  // namespace canopy

#endif  // CORE_MODEL_DECODER_H_
