// Llama 2 and 3: the plain decoder. From 3.1 on with the "llama3" rotary scaling.
#include "core/model/families/families.h"

namespace canopy {

Family LlamaFamily() {
  Family family;
  family.model_type = "llama";
  family.class_prefix = "Llama";
  family.default_kv_heads = true;
  family.attention_bias = AttentionBias::kConfigured;
  return family;
}

}  // namespace canopy
