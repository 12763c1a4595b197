// Mistral: like Llama without biases. Its first version has a sliding window in every layer.
#include "core/checkpoint/families/families.h"

namespace canopy {

Family MistralFamily() {
  Family family;
  family.model_type = "mistral";
  family.class_prefix = "Mistral";
  family.sliding_windows = SlidingWindows::kAllLayers;
  return family;
}

}  // namespace canopy
