// The reward head of a sequence-classification model: a linear map of a path's last hidden state.
#ifndef CORE_SCORING_REWARD_H_
#define CORE_SCORING_REWARD_H_

#include <cstdint>

#include "ATen/core/Tensor.h"

namespace canopy {

// Immutable.
class RewardHead {
 public:
  // `weight` [labels, hidden] float32, on the device of the hidden states.
  explicit RewardHead(at::Tensor weight);

  // hidden [paths, hidden] in any float dtype -> [paths, labels] float32, always computed in
  // float32. Throws LibTorch's errors.
  at::Tensor Score(const at::Tensor& hidden) const;

 private:
  const at::Tensor weight_;
};

}  // namespace canopy

#endif  // CORE_SCORING_REWARD_H_
