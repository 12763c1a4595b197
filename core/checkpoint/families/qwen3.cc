// Dense Qwen3, which has a separate head size, and normalizes each head before the rotary
// embedding.
#include "core/checkpoint/families/families.h"

namespace canopy {

Family Qwen3Family() {
  Family family;
  family.model_type = "qwen3";
  family.class_prefix = "Qwen3";
  family.default_head_dim = 128;
  family.attention_bias = AttentionBias::kConfigured;
  family.qk_norm = true;
  family.sliding_windows = SlidingWindows::kConfiguredLayers;
  return family;
}

}  // namespace canopy
