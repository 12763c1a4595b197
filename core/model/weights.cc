#include "core/model/weights.h"

#include <cstdint>
#include <cstring>
#include <string>

#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "absl/strings/str_cat.h"
#include "c10/core/InferenceMode.h"
#include "core/base/status_macros.h"
#include "core/ops/torch_guard.h"

namespace canopy {
namespace {

// Copies `view` into the memory of `target`, of the same number of elements, converting type and
// device.
void CopyWeight(const TensorView& view, const at::Tensor& target) {
  const at::ScalarType stored = view.dtype == DType::kBFloat16 ? at::kBFloat16 : at::kFloat;
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

// Uploads tensors of one layer (or of none) by name.
class Uploader {
 public:
  Uploader(const WeightMap& weights, const at::TensorOptions& options)
      : weights_(weights), options_(options) {}

  at::Tensor Tensor(absl::string_view name) const { return UploadWeight(View(name), options_); }

  at::Tensor TensorOrUndefined(absl::string_view name) const {
    return weights_.Find(name) == nullptr ? at::Tensor() : Tensor(name);
  }

  // The tensors one below the other; undefined when the model lacks them.
  at::Tensor Stacked(const std::vector<std::string>& names) const {
    int64_t rows = 0;
    for (const std::string& name : names) {
      if (weights_.Find(name) == nullptr) {
        return {};
      }
      rows += View(name).shape[0];
    }
    std::vector<int64_t> shape = View(names.front()).shape;
    shape[0] = rows;
    at::Tensor stacked = at::empty(shape, options_);
    int64_t begin = 0;
    for (const std::string& name : names) {
      const TensorView& view = View(name);
      CopyWeight(view, stacked.narrow(0, begin, view.shape[0]));
      begin += view.shape[0];
    }
    return stacked;
  }

  // [query heads + kv heads, head dim] from the two [head dim].
  at::Tensor HeadNorms(const std::string& attention, const ModelConfig& config) const {
    at::Tensor norms =
        at::empty({config.num_query_heads + config.num_kv_heads, config.head_dim}, options_);
    norms.narrow(0, 0, config.num_query_heads).copy_(Tensor(attention + "q_norm.weight"));
    norms.narrow(0, config.num_query_heads, config.num_kv_heads)
        .copy_(Tensor(attention + "k_norm.weight"));
    return norms;
  }

  LayerWeights Layer(int64_t index, const ModelConfig& config) const {
    const std::string layer = absl::StrCat("layers.", index, ".");
    const std::string attention = layer + "self_attn.";
    const auto projections = [&](absl::string_view kind) {
      return std::vector<std::string>{absl::StrCat(attention, "q_proj.", kind),
                                      absl::StrCat(attention, "k_proj.", kind),
                                      absl::StrCat(attention, "v_proj.", kind)};
    };
    LayerWeights weights;
    weights.input_norm = Tensor(layer + "input_layernorm.weight");
    weights.qkv = Stacked(projections("weight"));
    weights.qkv_bias = Stacked(projections("bias"));
    if (config.qk_norm) {
      weights.qk_norm = HeadNorms(attention, config);
    }
    weights.output = Tensor(attention + "o_proj.weight");
    weights.output_bias = TensorOrUndefined(attention + "o_proj.bias");
    weights.post_attention_norm = Tensor(layer + "post_attention_layernorm.weight");
    weights.gate_up = Stacked({layer + "mlp.gate_proj.weight", layer + "mlp.up_proj.weight"});
    weights.down = Tensor(layer + "mlp.down_proj.weight");
    return weights;
  }

 private:
  // MatchWeights has made sure of the name.
  const TensorView& View(absl::string_view name) const { return *weights_.Find(name); }

  const WeightMap& weights_;
  const at::TensorOptions options_;
};

}  // namespace

at::Tensor UploadWeight(const TensorView& view, const at::TensorOptions& options) {
  at::Tensor tensor = at::empty(view.shape, options);
  CopyWeight(view, tensor);
  return tensor;
}

absl::StatusOr<DecoderWeights> LoadDecoderWeights(const ModelConfig& config,
                                                  const WeightMap& weights,
                                                  const at::TensorOptions& options) {
  return GuardTorch("loading weights", [&]() -> absl::StatusOr<DecoderWeights> {
    const c10::InferenceMode inference;
    const Uploader uploader(weights, options);
    DecoderWeights decoder;
    decoder.embedding = uploader.Tensor("embed_tokens.weight");
    for (int64_t index = 0; index < config.num_layers; ++index) {
      decoder.layers.push_back(uploader.Layer(index, config));
    }
    decoder.final_norm = uploader.Tensor("norm.weight");
    decoder.rotary = MakeRotaryFrequencies(config.rope, config.head_dim);
    decoder.rotary.inverse = decoder.rotary.inverse.to(options.device());
    return decoder;
  });
}

}  // namespace canopy
