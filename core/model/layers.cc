#include "core/model/layers.h"

#include <cstdint>

#include "ATen/ops/rms_norm.h"
#include "ATen/ops/silu.h"

namespace canopy {

at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return at::rms_norm(x, weight.sizes(), weight, eps);
}

at::Tensor HeadRmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return at::rms_norm(x, {x.size(-1)}, std::nullopt, eps).mul_(weight);
}

at::Tensor GatedSilu(const at::Tensor& gate_up) {
  const int64_t intermediate = gate_up.size(-1) / 2;
  return at::silu(gate_up.narrow(-1, 0, intermediate))
      .mul_(gate_up.narrow(-1, intermediate, intermediate));
}

void AddProduct(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias,
                const at::Tensor& sum) {
  sum.addmm_(rows, weight);
  if (bias.defined()) {
    sum.add_(bias);
  }
}

}  // namespace canopy
