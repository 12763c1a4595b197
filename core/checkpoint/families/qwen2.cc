// Qwen2 and Qwen2.5, which have biases on q, k and v that no key of config.json mentions.
#include "core/checkpoint/families/families.h"

namespace canopy {

Family Qwen2Family() {
  Family family;
  family.model_type = "qwen2";
  family.class_prefix = "Qwen2";
  family.attention_bias = AttentionBias::kQkv;
  family.sliding_windows = SlidingWindows::kConfiguredLayers;
  return family;
}

}  // namespace canopy
