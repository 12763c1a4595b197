// The MLP of a sparse layer: a router picks a few experts for each token and mixes their outputs.
#ifndef CORE_MODEL_EXPERTS_H_
#define CORE_MODEL_EXPERTS_H_

#include "ATen/core/Tensor.h"
#include "core/checkpoint/model_config.h"

namespace canopy {

// All in the compute dtype.
struct ExpertWeights {
  at::Tensor router;   // [experts, hidden]
  at::Tensor gate_up;  // [experts, 2 x intermediate, hidden], gate first
  at::Tensor down;     // [experts, hidden, intermediate]
};

// x [tokens, hidden] -> [tokens, hidden]. Every token gets all experts that the router picks for
// it: tokens are grouped by expert and each group is one product, however large. Runs in chunks of
// tokens, so that the groups' rows stay bounded. Nothing is read back from a device whose grouped
// products take the type, as CUDA's take bfloat16. Throws LibTorch's errors.
at::Tensor MixExperts(const at::Tensor& x, const ExpertWeights& weights,
                      const ExpertsConfig& config);

}  // namespace canopy

#endif  // CORE_MODEL_EXPERTS_H_
