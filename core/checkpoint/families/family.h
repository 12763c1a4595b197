// Describes, as data, how a family of decoders differs from the others.
// core/checkpoint/model_config reads it together with a config.json. The resulting ModelConfig does
// not mention the family, so the schema, the weights and the decoder do not depend on it. Each
// family has its own file; docs/MODELS.md says how to add one.
#ifndef CORE_CHECKPOINT_FAMILIES_FAMILY_H_
#define CORE_CHECKPOINT_FAMILIES_FAMILY_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace canopy {

enum class AttentionBias {
  kNone,
  kQkv,         // q, k and v have a bias; o has none
  kConfigured,  // all four or none, as `attention_bias` says
};

// Decides which layers read only the last `sliding_window` tokens.
enum class SlidingWindows {
  kNone,  // no layer
  // if `use_sliding_window`: the layers of `layer_types`, else those from `max_window_layers` on
  kConfiguredLayers,
  kSwitchedLayers,  // if `use_sliding_window`: all layers
  kAllLayers,       // all layers, unless `sliding_window` is null
};

// The defaults are the values of most families.
struct Family {
  absl::string_view model_type;  // as in config.json: "qwen3"
  // prefix of the names in `architectures`: "Qwen3" of "Qwen3Model"
  absl::string_view class_prefix;
  int64_t default_head_dim = 0;   // if `head_dim` is absent; 0 = hidden_size / num_attention_heads
  bool default_kv_heads = false;  // if `num_key_value_heads` is absent, there is one per query head
  double default_rope_theta = 0.0;  // if `rope_theta` is absent; 0 = the key is required
  AttentionBias attention_bias = AttentionBias::kNone;
  bool qk_norm = false;  // RMS norm of each query and key head before the rotary embedding
  SlidingWindows sliding_windows = SlidingWindows::kNone;
  bool sparse_experts = false;  // some or all layers have a top-k mixture of experts as MLP
};

}  // namespace canopy

#endif  // CORE_CHECKPOINT_FAMILIES_FAMILY_H_
