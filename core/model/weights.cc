#include "core/model/weights.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "ATen/ops/cat.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "c10/core/InferenceMode.h"
#include "core/ops/torch_guard.h"

namespace canopy {
namespace {

at::ScalarType StoredType(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return at::kBFloat16;
    case DType::kFloat16:
      return at::kHalf;
    default:
      return at::kFloat;
  }
}

// Copies `view` into the memory of `target`, of the same number of elements, converting type and
// device.
void CopyWeight(const TensorView& view, const at::Tensor& target) {
  const at::ScalarType stored = StoredType(view.dtype);
  const auto address = reinterpret_cast<uintptr_t>(view.bytes.data());
  at::Tensor source;
  if (address % static_cast<uintptr_t>(DTypeBytes(view.dtype)) == 0) {
    // LibTorch has no read-only tensors; this one is only read.
    source = at::from_blob(const_cast<uint8_t*>(view.bytes.data()), target.sizes(),
                           at::TensorOptions().dtype(stored));
  } else {
    source = at::empty(target.sizes(), at::TensorOptions().dtype(stored));
    std::memcpy(source.mutable_data_ptr(), view.bytes.data(), view.bytes.size());
  }
  target.copy_(source);
}

// Where a decoder's tensors come from, by canonical name. MatchWeights has made sure of the names.
class TensorReader {
 public:
  virtual ~TensorReader() = default;

  // The tensors one below the other.
  virtual at::Tensor Stacked(const std::vector<std::string>& names) const = 0;

  at::Tensor Tensor(const std::string& name) const { return Stacked({name}); }
};

// Copies to the device, each tensor to its place, and gives its memory on the host back if the
// source can, so that host memory holds the weights once even if it is the device.
class Uploader : public TensorReader {
 public:
  Uploader(const WeightMap& weights, const at::TensorOptions& options, WantedCheck check_wanted)
      : weights_(weights), options_(options), check_wanted_(std::move(check_wanted)) {}

  // The error of check_wanted that ended the copying; what was read since then is unspecified.
  const absl::Status& status() const { return status_; }

  at::Tensor Stacked(const std::vector<std::string>& names) const override {
    std::vector<int64_t> shape = weights_.Find(names.front())->shape;
    shape[0] = 0;
    for (const std::string& name : names) {
      shape[0] += weights_.Find(name)->shape[0];
    }
    at::Tensor stacked = at::empty(shape, options_);
    int64_t begin = 0;
    for (const std::string& name : names) {
      const TensorView& view = *weights_.Find(name);
      if (status_.ok() && check_wanted_) {
        status_ = check_wanted_();
      }
      if (!status_.ok()) {
        break;
      }
      CopyWeight(view, stacked.narrow(0, begin, view.shape[0]));
      weights_.source.Release(view);
      begin += view.shape[0];
    }
    return stacked;
  }

 private:
  const WeightMap& weights_;
  const at::TensorOptions options_;
  const WantedCheck check_wanted_;
  mutable absl::Status status_;
};

// Joins what is on the device already.
class ParameterReader : public TensorReader {
 public:
  explicit ParameterReader(const ParameterMap& parameters) : parameters_(parameters) {}

  at::Tensor Stacked(const std::vector<std::string>& names) const override {
    std::vector<at::Tensor> tensors;
    tensors.reserve(names.size());
    for (const std::string& name : names) {
      tensors.push_back(parameters_.find(name)->second);
    }
    return tensors.size() == 1 ? tensors.front() : at::cat(tensors);
  }

 private:
  const ParameterMap& parameters_;
};

ExpertWeights Experts(const TensorReader& reader, const std::string& mlp,
                      const ModelConfig& config) {
  const int64_t num_experts = config.experts.num_experts;
  std::vector<std::string> gate_up;
  std::vector<std::string> down;
  for (int64_t index = 0; index < num_experts; ++index) {
    const std::string expert = absl::StrCat(mlp, "experts.", index, ".");
    gate_up.push_back(expert + "gate_proj.weight");
    gate_up.push_back(expert + "up_proj.weight");
    down.push_back(expert + "down_proj.weight");
  }
  return {reader.Tensor(mlp + "gate.weight"),
          reader.Stacked(gate_up).unflatten(0, {num_experts, -1}),
          reader.Stacked(down).unflatten(0, {num_experts, -1})};
}

// [query heads + kv heads, head dim] from the two [head dim].
at::Tensor HeadNorms(const TensorReader& reader, const std::string& attention,
                     const ModelConfig& config) {
  return at::cat({reader.Tensor(attention + "q_norm.weight").expand({config.num_query_heads, -1}),
                  reader.Tensor(attention + "k_norm.weight").expand({config.num_kv_heads, -1})});
}

LayerWeights Layer(const TensorReader& reader, int64_t index, const ModelConfig& config) {
  const std::string layer = absl::StrCat("layers.", index, ".");
  const std::string attention = layer + "self_attn.";
  const auto projections = [&](absl::string_view kind) {
    return std::vector<std::string>{absl::StrCat(attention, "q_proj.", kind),
                                    absl::StrCat(attention, "k_proj.", kind),
                                    absl::StrCat(attention, "v_proj.", kind)};
  };
  LayerWeights weights;
  weights.input_norm = reader.Tensor(layer + "input_layernorm.weight");
  weights.qkv = reader.Stacked(projections("weight"));
  if (config.qkv_bias) {
    weights.qkv_bias = reader.Stacked(projections("bias"));
  }
  if (config.qk_norm) {
    weights.qk_norm = HeadNorms(reader, attention, config);
  }
  weights.output = reader.Tensor(attention + "o_proj.weight");
  if (config.output_bias) {
    weights.output_bias = reader.Tensor(attention + "o_proj.bias");
  }
  weights.post_attention_norm = reader.Tensor(layer + "post_attention_layernorm.weight");
  if (config.sparse(index)) {
    weights.experts = Experts(reader, layer + "mlp.", config);
  } else {
    weights.gate_up =
        reader.Stacked({layer + "mlp.gate_proj.weight", layer + "mlp.up_proj.weight"});
    weights.down = reader.Tensor(layer + "mlp.down_proj.weight");
  }
  return weights;
}

DecoderWeights ReadWeights(const TensorReader& reader, const ModelConfig& config) {
  DecoderWeights decoder;
  decoder.embedding = reader.Tensor("embed_tokens.weight");
  for (int64_t index = 0; index < config.num_layers; ++index) {
    decoder.layers.push_back(Layer(reader, index, config));
  }
  decoder.final_norm = reader.Tensor("norm.weight");
  decoder.rotary = MakeRotaryFrequencies(config.rope, config.head_dim);
  decoder.rotary.inverse = decoder.rotary.inverse.to(decoder.embedding.device());
  return decoder;
}

constexpr at::Tensor LayerWeights::*kLayerTensors[] = {&LayerWeights::input_norm,
                                                       &LayerWeights::qkv,
                                                       &LayerWeights::qkv_bias,
                                                       &LayerWeights::qk_norm,
                                                       &LayerWeights::output,
                                                       &LayerWeights::output_bias,
                                                       &LayerWeights::post_attention_norm,
                                                       &LayerWeights::gate_up,
                                                       &LayerWeights::down};
constexpr at::Tensor ExpertWeights::*kExpertTensors[] = {
    &ExpertWeights::router, &ExpertWeights::gate_up, &ExpertWeights::down};

}  // namespace

at::Tensor UploadWeight(const TensorView& view, const at::TensorOptions& options) {
  at::Tensor tensor = at::empty(view.shape, options);
  CopyWeight(view, tensor);
  return tensor;
}

std::vector<at::Tensor> TensorsOf(const LayerWeights& layer) {
  std::vector<at::Tensor> tensors;
  for (const auto member : kLayerTensors) {
    tensors.push_back(layer.*member);
  }
  for (const auto member : kExpertTensors) {
    tensors.push_back(layer.experts.*member);
  }
  return tensors;
}

LayerWeights LayerOf(absl::Span<const at::Tensor> tensors) {
  LayerWeights layer;
  size_t next = 0;
  for (const auto member : kLayerTensors) {
    layer.*member = tensors[next++];
  }
  for (const auto member : kExpertTensors) {
    layer.experts.*member = tensors[next++];
  }
  return layer;
}

absl::StatusOr<DecoderWeights> LoadDecoderWeights(const ModelConfig& config,
                                                  const WeightMap& weights,
                                                  const at::TensorOptions& options,
                                                  const WantedCheck& check_wanted) {
  return GuardTorch("loading weights", [&]() -> absl::StatusOr<DecoderWeights> {
    const c10::InferenceMode inference;
    const Uploader uploader(weights, options, check_wanted);
    DecoderWeights decoder = ReadWeights(uploader, config);
    CANOPY_RETURN_IF_ERROR(uploader.status());
    return decoder;
  });
}

absl::StatusOr<ParameterMap> LoadParameters(const ModelConfig& config, const WeightMap& weights,
                                            const at::TensorOptions& options) {
  return GuardTorch("loading parameters", [&]() -> absl::StatusOr<ParameterMap> {
    ModelConfig backbone = config;
    backbone.head = ModelHead::kNone;
    ParameterMap parameters;
    for (const TensorSpec& spec : ExpectedTensors(backbone)) {
      parameters[spec.name] =
          UploadWeight(*weights.Find(spec.name), options).set_requires_grad(true);
    }
    return parameters;
  });
}

DecoderWeights FuseParameters(const ModelConfig& config, const ParameterMap& parameters) {
  return ReadWeights(ParameterReader(parameters), config);
}

}  // namespace canopy
