// Runs the decoder's layers, for every model family, backend and use. Layers differ in their
// weights; backends differ in their LayerOps.
//
//   each layer   norm, mixer | output projection, added | norm, channel step, added
//   last layer   the mixer runs for all tokens, the later steps only for the rows that are read
#ifndef CORE_MODEL_DECODER_H_
#define CORE_MODEL_DECODER_H_

#include "ATen/core/Tensor.h"
#include "core/model/layer_ops.h"
#include "core/model/weights.h"

namespace canopy {

// Returns the final-norm hidden states [outputs, hidden] of the rows that `ops` reads.
// Precondition: `weights` have at least one layer. Throws LibTorch's errors.
at::Tensor Decode(const DecoderWeights& weights, LayerOps& ops);

// Decode in two parts. DecodeToLastMixer does not depend on the rows that are read, so a caller can
// record it as a graph. DecodeRest may use other LayerOps, which read their rows from the result of
// DecodeToLastMixer.
MixedRows DecodeToLastMixer(const DecoderWeights& weights, LayerOps& ops);
at::Tensor DecodeRest(const DecoderWeights& weights, const MixedRows& last, LayerOps& ops);

}  // namespace canopy

#endif  // CORE_MODEL_DECODER_H_
