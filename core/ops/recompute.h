// Trades arithmetic for memory in training: a function's intermediate results are discarded and
// computed again in the backward pass, like torch.utils.checkpoint in Python.
#ifndef CORE_OPS_RECOMPUTE_H_
#define CORE_OPS_RECOMPUTE_H_

#include <functional>
#include <vector>

#include "ATen/core/Tensor.h"

namespace canopy {

using TensorsFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

// Returns function(inputs) and keeps only the inputs. The backward pass calls `function` again,
// with the autocast settings and the state of LibTorch's generator that this call saved. `function`
// must therefore own what it refers to and depend on nothing else. Inputs may be undefined tensors;
// results must be defined. Parameters get gradients only if they are among `inputs`. Throws
// LibTorch's errors.
std::vector<at::Tensor> RecomputeInBackward(TensorsFunction function,
                                            const std::vector<at::Tensor>& inputs);

}  // namespace canopy

#endif  // CORE_OPS_RECOMPUTE_H_
