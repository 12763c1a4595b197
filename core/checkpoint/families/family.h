// What sets one family of decoders apart from the others, as data. core/checkpoint/model_config
// reads it beside a config.json; what comes out, a ModelConfig, says everything in the model's own
// terms, so that schema, weights and decoder need no family. One file a family; docs/MODELS.md says
// how to add one.
#ifndef CORE_CHECKPOINT_FAMILIES_FAMILY_H_
#define CORE_CHECKPOINT_FAMILIES_FAMILY_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace canopy {

enum class AttentionBias {
  kNone,
  kQkv,         // q, k and v have one, o has none.
  kConfigured,  // All four or none, as `attention_bias` says.
};

// Which layers read only the last `sliding_window` tokens.
enum class SlidingWindows {
  kNone,              // None ever does.
  kConfiguredLayers,  // Where `use_sliding_window`: those of `layer_types`, else all from
                      // `max_window_layers` on.
  kSwitchedLayers,    // Where `use_sliding_window`: all.
  kAllLayers,         // All, unless `sliding_window` is null.
};

// Every member's default is what most families do.
struct Family {
  absl::string_view model_type;     // As in config.json: "qwen3".
  absl::string_view class_prefix;   // Of the names in `architectures`: "Qwen3" of "Qwen3Model".
  int64_t default_head_dim = 0;     // Without `head_dim`; 0 = hidden_size / num_attention_heads.
  bool default_kv_heads = false;    // Without `num_key_value_heads`: one for each query head.
  double default_rope_theta = 0.0;  // Without `rope_theta`; 0 = it is required.
  AttentionBias attention_bias = AttentionBias::kNone;
  bool qk_norm = false;  // RMS norm of each query and key head before the rotary embedding.
  SlidingWindows sliding_windows = SlidingWindows::kNone;
  bool sparse_experts = false;  // Layers whose MLP is a top-k mixture of experts.
};

}  // namespace canopy

#endif  // CORE_CHECKPOINT_FAMILIES_FAMILY_H_
