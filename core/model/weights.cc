#include "core/model/weights.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "ATen/ops/cat.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "absl/functional/function_ref.h"
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

// Copies `view` to `target`, which has the same number of elements, and converts dtype and device.
void CopyWeight(const TensorView& view, const at::Tensor& target) {
  const at::ScalarType stored = StoredType(view.dtype);
  const auto address = reinterpret_cast<uintptr_t>(view.bytes.data());
  at::Tensor source;
  if (address % static_cast<uintptr_t>(DTypeBytes(view.dtype)) == 0) {
    // LibTorch has no read-only tensors, so constness is cast away; the tensor is only read.
    source = at::from_blob(const_cast<uint8_t*>(view.bytes.data()), target.sizes(),
                           at::TensorOptions().dtype(stored));
  } else {
    source = at::empty(target.sizes(), at::TensorOptions().dtype(stored));
    std::memcpy(source.mutable_data_ptr(), view.bytes.data(), view.bytes.size());
  }
  target.copy_(source);
}

// Reads a decoder's tensors by canonical name. Precondition: MatchWeights has checked the names.
class TensorReader {
 public:
  virtual ~TensorReader() = default;

  // Returns the tensors concatenated along their first dimension.
  virtual at::Tensor Stacked(const std::vector<std::string>& names) const = 0;

  at::Tensor Tensor(const std::string& name) const { return Stacked({name}); }
};

// Copies each tensor directly to its place on the device, then releases its host memory if the
// source can. Even if the device is the host, the weights are in memory only once.
class Uploader : public TensorReader {
 public:
  Uploader(const WeightMap& weights, const at::TensorOptions& options, WantedCheck check_wanted)
      : weights_(weights), options_(options), check_wanted_(std::move(check_wanted)) {}

  // Returns the error of check_wanted that stopped the copying. Tensors read after the error are
  // unspecified.
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

// Concatenates tensors that are already on the device.
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

// Returns [query heads + kv heads, head dim], expanded from the norms of queries and keys [head
// dim].
at::Tensor HeadNorms(const TensorReader& reader, const std::string& attention,
                     const ModelConfig& config) {
  return at::cat({reader.Tensor(attention + "q_norm.weight").expand({config.num_query_heads, -1}),
                  reader.Tensor(attention + "k_norm.weight").expand({config.num_kv_heads, -1})});
}

AttentionWeights Attention(const TensorReader& reader, const std::string& attention,
                           const ModelConfig& config) {
  const auto projections = [&](absl::string_view kind) {
    return std::vector<std::string>{absl::StrCat(attention, "q_proj.", kind),
                                    absl::StrCat(attention, "k_proj.", kind),
                                    absl::StrCat(attention, "v_proj.", kind)};
  };
  AttentionWeights weights;
  weights.heads.weight = reader.Stacked(projections("weight"));
  if (config.qkv_bias) {
    weights.heads.bias = reader.Stacked(projections("bias"));
  }
  if (config.qk_norm) {
    weights.heads.qk_norm = HeadNorms(reader, attention, config);
  }
  return weights;
}

// Sets the mixer and its output projection.
void ReadMixer(const TensorReader& reader, const std::string& layer, MixerKind kind,
               const ModelConfig& config, LayerWeights& weights) {
  switch (kind) {
    case MixerKind::kFullAttention:
    case MixerKind::kSlidingAttention:
      AttentionWeights attention = Attention(reader, layer + "self_attn.", config);
      attention.slides = kind == MixerKind::kSlidingAttention;
      weights.mixer = std::move(attention);
      weights.output = reader.Tensor(layer + "self_attn.o_proj.weight").t();
      if (config.output_bias) {
        weights.output_bias = reader.Tensor(layer + "self_attn.o_proj.bias");
      }
      break;
  }
}

ChannelWeights Channel(const TensorReader& reader, const std::string& mlp, ChannelKind kind,
                       const ModelConfig& config) {
  switch (kind) {
    case ChannelKind::kExperts:
      return Experts(reader, mlp, config);
    case ChannelKind::kGatedMlp:
      break;
  }
  return GatedMlpWeights{reader.Stacked({mlp + "gate_proj.weight", mlp + "up_proj.weight"}),
                         reader.Tensor(mlp + "down_proj.weight").t()};
}

LayerWeights Layer(const TensorReader& reader, int64_t index, const ModelConfig& config) {
  const std::string layer = absl::StrCat("layers.", index, ".");
  LayerWeights weights;
  weights.mixer_norm = reader.Tensor(layer + "input_layernorm.weight");
  ReadMixer(reader, layer, config.mixer(index), config, weights);
  weights.channel_norm = reader.Tensor(layer + "post_attention_layernorm.weight");
  weights.channel = Channel(reader, layer + "mlp.", config.channel(index), config);
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

using TensorVisitor = absl::FunctionRef<void(at::Tensor&)>;

// Each overload of Visit names all members of its struct, so that a new member does not compile
// until it is visited.
void Visit(AttentionWeights& attention, TensorVisitor visit) {
  auto& [heads, slides] = attention;
  auto& [weight, bias, qk_norm] = heads;
  visit(weight);
  visit(bias);
  visit(qk_norm);
}

void Visit(GatedMlpWeights& mlp, TensorVisitor visit) {
  auto& [gate_up, down] = mlp;
  visit(gate_up);
  visit(down);
}

void Visit(ExpertWeights& experts, TensorVisitor visit) {
  auto& [router, gate_up, down] = experts;
  visit(router);
  visit(gate_up);
  visit(down);
}

void Visit(LayerWeights& layer, TensorVisitor visit) {
  auto& [mixer_norm, mixer, output, output_bias, channel_norm, channel] = layer;
  const auto visit_alternative = [&](auto& weights) { Visit(weights, visit); };
  visit(mixer_norm);
  std::visit(visit_alternative, mixer);
  visit(output);
  visit(output_bias);
  visit(channel_norm);
  std::visit(visit_alternative, channel);
}

}  // namespace

at::Tensor UploadWeight(const TensorView& view, const at::TensorOptions& options) {
  at::Tensor tensor = at::empty(view.shape, options);
  CopyWeight(view, tensor);
  return tensor;
}

std::vector<at::Tensor> TensorsOf(LayerWeights layer) {
  std::vector<at::Tensor> tensors;
  Visit(layer, [&tensors](at::Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

LayerWeights WithTensors(LayerWeights layer, absl::Span<const at::Tensor> tensors) {
  size_t next = 0;
  Visit(layer, [&](at::Tensor& tensor) { tensor = tensors[next++]; });
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
