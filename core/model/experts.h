// The MLP of a sparse layer. A router chooses a few experts for each token and mixes their outputs.
#ifndef CORE_MODEL_EXPERTS_H_
#define CORE_MODEL_EXPERTS_H_

#include "ATen/core/Tensor.h"
#include "core/checkpoint/model_config.h"

namespace canopy {

// All tensors are in the compute dtype.
struct ExpertWeights {
  at::Tensor router;   // [experts, hidden]
  at::Tensor gate_up;  // [experts, 2 x intermediate, hidden], gate first
  at::Tensor down;     // [experts, hidden, intermediate]
};

// x [tokens, hidden] -> [tokens, hidden]. Experts have no capacity limit: each token gets all
// experts that the router chooses for it. Tokens are grouped by expert, and each group is one
// product of any size. Runs in chunks of tokens, so that memory stays bounded. Does not synchronize
// with a device whose grouped products support the dtype; CUDA's support bfloat16. Throws
// LibTorch's errors.
at::Tensor MixExperts(const at::Tensor& x, const ExpertWeights& weights,
                      const ExpertsConfig& config);

}  // namespace canopy

#endif  // CORE_MODEL_EXPERTS_H_
