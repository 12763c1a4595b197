// Checked weight views -> tensors on the device. What the layers multiply by is fused here, in
// memory only: q, k and v to one matrix, gate and up to another.
#ifndef CORE_MODEL_WEIGHTS_H_
#define CORE_MODEL_WEIGHTS_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/checkpoint/file_copy.h"
#include "core/checkpoint/model_config.h"
#include "core/checkpoint/weight_schema.h"
#include "core/model/experts.h"
#include "core/model/rotary.h"

namespace canopy {

// One decoder layer. All in the compute dtype; biases are undefined where the model has none.
struct LayerWeights {
  at::Tensor input_norm;           // [hidden]
  at::Tensor qkv;                  // [(query heads + 2 kv heads) x head dim, hidden]
  at::Tensor qkv_bias;             // [(query heads + 2 kv heads) x head dim]
  at::Tensor qk_norm;              // [query heads + kv heads, head dim]: each head's own copy;
                                   // undefined where heads are not normed
  at::Tensor output;               // [hidden, query heads x head dim]
  at::Tensor output_bias;          // [hidden]
  at::Tensor post_attention_norm;  // [hidden]
  at::Tensor gate_up;              // [2 x intermediate, hidden]; undefined in sparse layers
  at::Tensor down;                 // [hidden, intermediate]; undefined in sparse layers
  ExpertWeights experts;           // of sparse layers
};

// The layer's tensors in a fixed order, undefined ones too, and the layer of such a list.
std::vector<at::Tensor> TensorsOf(const LayerWeights& layer);
LayerWeights LayerOf(absl::Span<const at::Tensor> tensors);

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
