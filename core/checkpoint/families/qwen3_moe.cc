// Qwen3-MoE: Qwen3 whose MLPs are mixtures of experts, in all layers or some.
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
