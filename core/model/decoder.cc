#include "core/model/decoder.h"

#include <variant>

namespace canopy {
namespace {

// Calls the step of a layer's mixer. A new kind of mixer without a step does not compile.
struct MixerStep {
  LayerOps& ops;
  const at::Tensor& hidden;
  const at::Tensor& norm;

  at::Tensor operator()(const AttentionWeights& attention) const {
    return ops.Attend(hidden, norm, attention);
  }
};

// Calls a layer's channel step. A new kind of channel without a step does not compile.
struct ChannelStep {
  LayerOps& ops;
  const at::Tensor& hidden;
  const at::Tensor& norm;

  at::Tensor operator()(const GatedMlpWeights& mlp) const {
    return ops.AddGatedMlp(hidden, norm, mlp);
  }
  at::Tensor operator()(const ExpertWeights& experts) const {
    return ops.AddExperts(hidden, norm, experts);
  }
};

MixedRows Mix(LayerOps& ops, const LayerWeights& layer, const at::Tensor& hidden) {
  return {hidden, std::visit(MixerStep{ops, hidden, layer.mixer_norm}, layer.mixer)};
}

// Runs the steps after the mixer.
at::Tensor Finish(LayerOps& ops, const LayerWeights& layer, const MixedRows& rows) {
  const at::Tensor hidden = ops.AddOutput(rows, layer.output, layer.output_bias);
  return std::visit(ChannelStep{ops, hidden, layer.channel_norm}, layer.channel);
}

at::Tensor RunLayer(LayerOps& ops, const LayerWeights& layer, const at::Tensor& hidden) {
  return Finish(ops, layer, Mix(ops, layer, hidden));
}

at::Tensor RunLastLayer(LayerOps& ops, const LayerWeights& layer, const at::Tensor& hidden) {
  // Only the rows that are read are kept, so the memory of the others is free during the later
  // steps.
  const MixedRows read = ops.ReadRows(Mix(ops, layer, hidden));
  return Finish(ops, layer, read);
}

at::Tensor RunToLastLayer(const DecoderWeights& weights, LayerOps& ops) {
  at::Tensor hidden = ops.Embed(weights.embedding);
  for (const LayerWeights& layer : weights.layers) {
    if (&layer != &weights.layers.back()) {
      hidden = ops.Run(RunLayer, layer, hidden);
    }
  }
  return hidden;
}

}  // namespace

at::Tensor Decode(const DecoderWeights& weights, LayerOps& ops) {
  const at::Tensor hidden = RunToLastLayer(weights, ops);
  return ops.FinalNorm(ops.Run(RunLastLayer, weights.layers.back(), hidden), weights.final_norm);
}

MixedRows DecodeToLastMixer(const DecoderWeights& weights, LayerOps& ops) {
  return Mix(ops, weights.layers.back(), RunToLastLayer(weights, ops));
}

at::Tensor DecodeRest(const DecoderWeights& weights, const MixedRows& last, LayerOps& ops) {
  return ops.FinalNorm(Finish(ops, weights.layers.back(), ops.ReadRows(last)), weights.final_norm);
}

}  // namespace canopy
