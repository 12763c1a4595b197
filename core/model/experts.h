// The MLP of a sparse layer: a router picks a few experts for each token and mixes their outputs.
#ifndef CORE_MODEL_EXPERTS_H_
#define CORE_MODEL_EXPERTS_H_

#include <cstdint>

#include "ATen/core/Tensor.h"

namespace canopy {

// All in the compute dtype; undefined in dense layers.
struct ExpertWeights {
  at::Tensor router;   // [experts, hidden]
  at::Tensor gate_up;  // [experts, 2 x intermediate, hidden], gate first
  at::Tensor down;     // [experts, hidden, intermediate]
};

struct ExpertRouting {
  int64_t experts_per_token = 0;
  bool normalize_weights = false;  // The chosen experts' weights add up to 1.
};

// x [tokens, hidden] -> [tokens, hidden]. Every token gets all experts that the router picks for
// it: tokens are grouped by expert and each group is one product, however large. Runs in chunks of
// tokens, so that the groups' rows stay bounded. Nothing is read back from the device. Throws
// LibTorch's errors.
at::Tensor MixExperts(const at::Tensor& x, const ExpertWeights& weights,
                      const ExpertRouting& routing);

}  // namespace canopy

#endif  // CORE_MODEL_EXPERTS_H_
