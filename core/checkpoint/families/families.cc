#include "core/checkpoint/families/families.h"

namespace canopy {

const std::vector<Family>& AllFamilies() {
  static const auto* const families = new std::vector<Family>{
      LlamaFamily(), MistralFamily(), Qwen2Family(), Qwen3Family(), Qwen3MoeFamily(),
  };
  return *families;
}

}  // namespace canopy
