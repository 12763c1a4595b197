// The decoder: the only loop over layers, for every family, backend and use. What differs between
// layers is in their weights, what differs between backends is behind LayerOps.
//
//   each layer   norm, mixer | output projection, added | norm, channel step, added
//   last layer   all tokens up to the mixer; the rest only for the rows that are read
#ifndef CORE_MODEL_DECODER_H_
#define CORE_MODEL_DECODER_H_

#include "ATen/core/Tensor.h"
#include "core/model/layer_ops.h"
#include "core/model/weights.h"

namespace canopy {

// Returns the final-norm hidden states [outputs, hidden] of the rows that `ops` reads. `weights`
// have at least one layer. Throws LibTorch's errors.
at::Tensor Decode(const DecoderWeights& weights, LayerOps& ops);

// Decode in two parts, for a caller that records the first, which does not depend on the rows that
// are read. The second may get other LayerOps, which read their rows out of the first one's result.
MixedRows DecodeToLastMixer(const DecoderWeights& weights, LayerOps& ops);
at::Tensor DecodeRest(const DecoderWeights& weights, const MixedRows& last, LayerOps& ops);

}  // namespace canopy

#endif  // CORE_MODEL_DECODER_H_
