// Qwen3-MoE: like Qwen3, but the MLPs of some or all layers are mixtures of experts.
#include "core/checkpoint/families/families.h"

namespace canopy {

Family Qwen3MoeFamily() {
  Family family;
  family.model_type = "qwen3_moe";
  family.class_prefix = "Qwen3Moe";
  family.attention_bias = AttentionBias::kConfigured;
  family.qk_norm = true;
  family.sliding_windows = SlidingWindows::kSwitchedLayers;
  family.sparse_experts = true;
  return family;
}

}  // namespace canopy
