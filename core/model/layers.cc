#include "core/model/layers.h"

#include <cstdint>

#include "ATen/ops/cos.h"
#include "ATen/ops/empty_like.h"
#include "ATen/ops/mul.h"
#include "ATen/ops/rms_norm.h"
#include "ATen/ops/silu.h"
#include "ATen/ops/sin.h"

namespace canopy {

at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return at::rms_norm(x, weight.sizes(), weight, eps);
}

at::Tensor HeadRmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return at::rms_norm(x, {x.size(-1)}, std::nullopt, eps).mul_(weight);
}

RotaryTables MakeRotaryTables(const at::Tensor& position_ids, const at::Tensor& inverse_frequencies,
                              at::ScalarType dtype) {
  const at::Tensor angles =
      position_ids.to(at::kFloat).unsqueeze(1).mul(inverse_frequencies).unsqueeze(1);
  return {at::cos(angles).to(dtype), at::sin(angles).to(dtype)};
}

at::Tensor ApplyRotary(const at::Tensor& x, const RotaryTables& tables) {
  const int64_t half = x.size(-1) / 2;
  const at::Tensor first = x.narrow(-1, 0, half);
  const at::Tensor second = x.narrow(-1, half, half);
  at::Tensor turned = at::empty_like(x, at::MemoryFormat::Contiguous);
  at::Tensor turned_first = turned.narrow(-1, 0, half);
  at::Tensor turned_second = turned.narrow(-1, half, half);
  at::mul_out(turned_first, first, tables.cos).addcmul_(second, tables.sin, -1);
  at::mul_out(turned_second, second, tables.cos).addcmul_(first, tables.sin);
  return turned;
}

at::Tensor GatedSilu(const at::Tensor& gate_up) {
  const int64_t intermediate = gate_up.size(-1) / 2;
  return at::silu(gate_up.narrow(-1, 0, intermediate))
      .mul_(gate_up.narrow(-1, intermediate, intermediate));
}

}  // namespace canopy
