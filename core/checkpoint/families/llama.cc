// Llama 2 and 3, the plain decoder. Versions from 3.1 on use the "llama3" rotary scaling. Llama 1
// and 2 were published before the key `rope_theta` existed, and imply 10,000.
#include "core/checkpoint/families/families.h"

namespace canopy {

Family LlamaFamily() {
  Family family;
  family.model_type = "llama";
  family.class_prefix = "Llama";
  family.default_kv_heads = true;
  family.default_rope_theta = 10000.0;
  family.attention_bias = AttentionBias::kConfigured;
  return family;
}

}  // namespace canopy
