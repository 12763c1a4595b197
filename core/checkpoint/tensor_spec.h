// The name and shape of a tensor that a model needs.
#ifndef CORE_CHECKPOINT_TENSOR_SPEC_H_
#define CORE_CHECKPOINT_TENSOR_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

namespace canopy {

// Canonical names are those of transformers without the backbone's prefix: "embed_tokens.weight",
// "layers.0.self_attn.q_proj.weight", "norm.weight", "lm_head.weight", "score.weight".
struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;  // [out, in] for projections
  bool in_backbone = true;     // false for heads, which never have the prefix
};

// Cannot overflow for the shapes of a model, because ModelConfig limits their sizes.
inline int64_t NumElements(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t dimension : shape) {
    elements *= dimension;
  }
  return elements;
}

}  // namespace canopy

#endif  // CORE_CHECKPOINT_TENSOR_SPEC_H_
