// Checked weight views -> tensors on the device. What the layers multiply by is fused here, in
// memory only: q, k and v to one matrix, gate and up to another.
#ifndef CORE_MODEL_WEIGHTS_H_
#define CORE_MODEL_WEIGHTS_H_

#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/checkpoint/file_copy.h"
#include "core/checkpoint/model_config.h"
#include "core/checkpoint/weight_schema.h"
#include "core/model/experts.h"
#include "core/model/rotary.h"
#include "core/ops/head_projection.h"

namespace canopy {

// The structs below hold tensors in the compute dtype; biases are undefined if the model has none.
// Matrices of products from the left, [in, out], are transposed views of the checkpoint's.

// MixerKind::kFullAttention and kSlidingAttention. One row of the result has query heads x head dim
// columns.
struct AttentionWeights {
  HeadProjection heads;
  bool slides = false;  // Reads the last tokens only, as many as the model's sliding window.
};

// ChannelKind::kGatedMlp.
struct GatedMlpWeights {
  at::Tensor gate_up;  // [2 x intermediate, hidden], gate first
  at::Tensor down;     // [intermediate, hidden]
};

// What a layer computes with: an alternative for each kind of mixer and of channel step, chosen for
// each layer by ModelConfig::mixer and ModelConfig::channel.
using MixerWeights = std::variant<AttentionWeights>;
using ChannelWeights = std::variant<GatedMlpWeights, ExpertWeights>;

// One decoder layer: hidden += mixer(norm(hidden)) x output + output_bias, then
// hidden += channel(norm(hidden)).
struct LayerWeights {
  at::Tensor mixer_norm;  // [hidden]
  MixerWeights mixer;
  at::Tensor output;        // [columns of the mixer's result, hidden]
  at::Tensor output_bias;   // [hidden]
  at::Tensor channel_norm;  // [hidden]
  ChannelWeights channel;
};

// Returns the layer's tensors in a fixed order, undefined ones too.
std::vector<at::Tensor> TensorsOf(LayerWeights layer);
// Returns a layer of the same kinds with other tensors, in the order of TensorsOf.
LayerWeights WithTensors(LayerWeights layer, absl::Span<const at::Tensor> tensors);

struct DecoderWeights {
  at::Tensor embedding;  // [vocab, hidden]
  std::vector<LayerWeights> layers;
  at::Tensor final_norm;  // [hidden]
  RotaryFrequencies rotary;
};

// Tensors by canonical name, as the checkpoint shapes them.
using ParameterMap = std::map<std::string, at::Tensor, std::less<>>;

// A copy of one tensor (F32, BF16 or F16) with the device and dtype of `options`. Throws LibTorch's
// errors.
at::Tensor UploadWeight(const TensorView& view, const at::TensorOptions& options);

// `weights` must have been matched with `config`. `options` name the device and the compute dtype.
// RESOURCE_EXHAUSTED when the device has no room. Releases each tensor that it has copied: see
// WeightSource::Release. Asks `check_wanted` before each tensor and returns its error.
absl::StatusOr<DecoderWeights> LoadDecoderWeights(const ModelConfig& config,
                                                  const WeightMap& weights,
                                                  const at::TensorOptions& options,
                                                  const WantedCheck& check_wanted = nullptr);

// The decoder's tensors as leaves that want gradients, copies with the device and dtype of
// `options`: those of LoadDecoderWeights, one by one. RESOURCE_EXHAUSTED likewise.
absl::StatusOr<ParameterMap> LoadParameters(const ModelConfig& config, const WeightMap& weights,
                                            const at::TensorOptions& options);

// What LoadDecoderWeights makes, differentiable by `parameters`, which hold all of LoadParameters.
// Throws LibTorch's errors.
DecoderWeights FuseParameters(const ModelConfig& config, const ParameterMap& parameters);

}  // namespace canopy

#endif  // CORE_MODEL_WEIGHTS_H_
