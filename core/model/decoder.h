// The decoder, written once for every family and attention backend.
#ifndef CORE_MODEL_DECODER_H_
#define CORE_MODEL_DECODER_H_

#include "ATen/core/Tensor.h"
#include "core/model/model_config.h"
#include "core/model/tree_context.h"
#include "core/model/weights.h"

namespace canopy {

// Immutable. One forward at a time.
class Decoder {
 public:
  Decoder(const ModelConfig& config, DecoderWeights weights);

  // Final-norm hidden states [outputs, hidden] at the context's output slots, in its order and in
  // the compute dtype. Call in inference mode. Throws LibTorch's errors.
  at::Tensor Forward(const TreeContext& context) const;

  const DecoderWeights& weights() const { return weights_; }

 private:
  // hidden [tokens, hidden] -> attention output before its projection, [tokens, query size].
  at::Tensor Attend(const LayerWeights& layer, const at::Tensor& hidden,
                    const TreeContext& context) const;
  // Adds the attention's projection and then the MLP to `hidden` in place; both [rows, ...].
  void FinishLayer(const LayerWeights& layer, const at::Tensor& attended,
                   const at::Tensor& hidden) const;

  const ModelConfig config_;
  const DecoderWeights weights_;
};

}  // namespace canopy

#endif  // CORE_MODEL_DECODER_H_
