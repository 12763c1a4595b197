// Trades arithmetic for memory in training: what a function keeps for its backward pass is thrown
// away and computed again when the pass comes. What torch.utils.checkpoint does in Python.
#ifndef CORE_OPS_RECOMPUTE_H_
#define CORE_OPS_RECOMPUTE_H_

#include <functional>
#include <vector>

#include "ATen/core/Tensor.h"

namespace canopy {

using TensorsFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

// function(inputs), keeping nothing but the inputs. Backward calls `function` again, with
// LibTorch's generator of the inputs' device and its autocast settings as they are now; so it must
// own what it refers to and depend on nothing else. Some inputs may be undefined, results not;
// parameters have gradients through `inputs` alone. Throws LibTorch's errors.
std::vector<at::Tensor> RecomputeInBackward(TensorsFunction function,
                                            const std::vector<at::Tensor>& inputs);

}  // namespace canopy

#endif  // CORE_OPS_RECOMPUTE_H_
