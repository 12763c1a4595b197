#include "core/scoring/reward.h"

#include <utility>

#include "ATen/ops/linear.h"

namespace canopy {

RewardHead::RewardHead(at::Tensor weight) : weight_(std::move(weight)) {}

at::Tensor RewardHead::Score(const at::Tensor& hidden) const {
  return at::linear(hidden.to(at::kFloat), weight_);
}

}  // namespace canopy
