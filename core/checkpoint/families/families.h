// Lists all model families that Canopy supports. A new family is declared here and added to
// families.cc.
#ifndef CORE_CHECKPOINT_FAMILIES_FAMILIES_H_
#define CORE_CHECKPOINT_FAMILIES_FAMILIES_H_

#include <vector>

#include "core/checkpoint/families/family.h"

namespace canopy {

Family LlamaFamily();
Family MistralFamily();
Family Qwen2Family();
Family Qwen3Family();
Family Qwen3MoeFamily();

// Returns all families in alphabetical order of model_type.
const std::vector<Family>& AllFamilies();

}  // namespace canopy

#endif  // CORE_CHECKPOINT_FAMILIES_FAMILIES_H_
