// Copies checked host tensors to the device. Weights that multiply the same input are fused in
// memory: q, k and v into one matrix, gate and up into another.
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

// The structs below hold tensors in the compute dtype. Biases are undefined if the model has none.
// Matrices [in, out], which multiply from the right, are transposed views of the checkpoint's
// matrices.

// Weights of MixerKind::kFullAttention and kSlidingAttention. A row of the mixer's result has query
// heads x head dim columns.
struct AttentionWeights {
  HeadProjection heads;
  bool slides = false;  // true = reads only the last tokens, within the sliding window
};

// Weights of ChannelKind::kGatedMlp.
struct GatedMlpWeights {
  at::Tensor gate_up;  // [2 x intermediate, hidden], gate first
  at::Tensor down;     // [intermediate, hidden]
};

// The weights of a layer's mixer and channel step: one alternative for each kind.
// ModelConfig::mixer and ModelConfig::channel choose the kinds of each layer.
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

// Returns the layer's tensors in a fixed order, including undefined ones.
std::vector<at::Tensor> TensorsOf(LayerWeights layer);
// Returns a layer of the same kinds with other tensors, given in the order of TensorsOf.
LayerWeights WithTensors(LayerWeights layer, absl::Span<const at::Tensor> tensors);

struct DecoderWeights {
  at::Tensor embedding;  // [vocab, hidden]
  std::vector<LayerWeights> layers;
  at::Tensor final_norm;  // [hidden]
  RotaryFrequencies rotary;
};

// Tensors by canonical name, with the shapes of the checkpoint.
using ParameterMap = std::map<std::string, at::Tensor, std::less<>>;

// Returns a copy of one tensor (F32, BF16 or F16) with the device and dtype of `options`. Throws
// LibTorch's errors.
at::Tensor UploadWeight(const TensorView& view, const at::TensorOptions& options);

// Copies the weights to the device in the compute dtype of `options`. Precondition: MatchWeights
// has matched `weights` with `config`. Releases each host tensor after copying it, see
// WeightSource::Release. Calls `check_wanted` before each tensor and returns its error. Returns
// RESOURCE_EXHAUSTED if the device has not enough memory.
absl::StatusOr<DecoderWeights> LoadDecoderWeights(const ModelConfig& config,
                                                  const WeightMap& weights,
                                                  const at::TensorOptions& options,
                                                  const WantedCheck& check_wanted = nullptr);

// Returns copies of the decoder's tensors, unfused, as leaf tensors that require gradients, with
// the device and dtype of `options`. Returns RESOURCE_EXHAUSTED if the device has not enough
// memory.
absl::StatusOr<ParameterMap> LoadParameters(const ModelConfig& config, const WeightMap& weights,
                                            const at::TensorOptions& options);

// Returns the weights that LoadDecoderWeights would make, differentiable with respect to
// `parameters`. Precondition: `parameters` hold all tensors of LoadParameters. Throws LibTorch's
// errors.
DecoderWeights FuseParameters(const ModelConfig& config, const ParameterMap& parameters);

}  // namespace canopy

#endif  // CORE_MODEL_WEIGHTS_H_
