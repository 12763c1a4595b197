#include "core/checkpoint/decision_layout.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace canopy {
namespace {

void AddLinear(const std::string& name, int64_t out, int64_t in, std::vector<TensorSpec>* specs) {
  specs->push_back({name + ".weight", {out, in}, /*in_backbone=*/false});
  specs->push_back({name + ".bias", {out}, /*in_backbone=*/false});
}

void AddLayerNorm(const std::string& name, std::vector<TensorSpec>* specs) {
  specs->push_back({name + ".weight", {kSetWidth}, /*in_backbone=*/false});
  specs->push_back({name + ".bias", {kSetWidth}, /*in_backbone=*/false});
}

}  // namespace

std::vector<TensorSpec> DecisionHeadTensors(int64_t hidden_size) {
  std::vector<TensorSpec> specs;
  AddLinear("proj_in", kSetWidth, hidden_size, &specs);
  for (int64_t index = 0; index < kSetLayers; ++index) {
    const std::string layer = absl::StrCat("set_encoder.encoder.layers.", index, ".");
    AddLayerNorm(layer + "norm1", &specs);
    specs.push_back({layer + "self_attn.in_proj_weight", {3 * kSetWidth, kSetWidth}, false});
    specs.push_back({layer + "self_attn.in_proj_bias", {3 * kSetWidth}, false});
    AddLinear(layer + "self_attn.out_proj", kSetWidth, kSetWidth, &specs);
    AddLayerNorm(layer + "norm2", &specs);
    AddLinear(layer + "linear1", kSetFeedForward, kSetWidth, &specs);
    AddLinear(layer + "linear2", kSetWidth, kSetFeedForward, &specs);
  }
  AddLinear("proj_out", hidden_size, kSetWidth, &specs);
  specs.push_back({"scorer.norm.weight", {hidden_size}, /*in_backbone=*/false});
  AddLinear("scorer.fc1", kSetWidth, hidden_size, &specs);
  AddLinear("scorer.fc2", 1, kSetWidth, &specs);
  return specs;
}

}  // namespace canopy
