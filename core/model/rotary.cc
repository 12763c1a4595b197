#include "core/model/rotary.h"

#include <algorithm>
#include <cmath>

#include "ATen/ops/arange.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/cos.h"
#include "ATen/ops/empty_like.h"
#include "ATen/ops/mul.h"
#include "ATen/ops/pow.h"
#include "ATen/ops/sin.h"
#include "ATen/ops/where.h"

namespace canopy {
namespace {

constexpr double kPi = 3.14159265358979323846;

// Returns theta^(2i / head dim): the number of positions per radian for each pair of dimensions.
at::Tensor PositionsPerRadian(double theta, int64_t head_dim) {
  const at::Tensor exponents = at::arange(0, head_dim, 2, at::kLong).to(at::kFloat).div_(head_dim);
  return at::pow(theta, exponents);
}

// Returns the dimension whose pair rotates `turns` times over the original length.
double DimensionOfTurns(double turns, const RopeConfig& rope, int64_t head_dim) {
  const auto length = static_cast<double>(rope.original_max_position_embeddings);
  return static_cast<double>(head_dim) * std::log(length / (turns * 2 * kPi)) /
         (2 * std::log(rope.theta));
}

// YaRN (Peng et al. 2023). Fast pairs keep their frequency, slow pairs are divided by the factor,
// and a linear ramp over the dimensions blends between them.
at::Tensor YarnFrequencies(const RopeConfig& rope, int64_t head_dim) {
  double low = DimensionOfTurns(rope.beta_fast, rope, head_dim);
  double high = DimensionOfTurns(rope.beta_slow, rope, head_dim);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim - 1));
  if (low == high) {
    high += 0.001;  // avoids a division by zero, as transformers does
  }
  const at::Tensor ramp =
      at::arange(head_dim / 2, at::kFloat).sub_(low).div_(high - low).clamp_(0, 1);
  const at::Tensor kept = ramp.neg().add_(1);
  const at::Tensor positions = PositionsPerRadian(rope.theta, head_dim);
  return positions.mul(rope.factor)
      .reciprocal_()
      .mul_(kept.neg().add_(1))
      .add_(positions.reciprocal().mul_(kept));
}

// Llama 3.1. Wavelengths below original length / high_freq_factor are kept, those above original
// length / low_freq_factor are divided by the factor, and a linear blend in frequency lies between.
at::Tensor Llama3Frequencies(const RopeConfig& rope, int64_t head_dim) {
  const auto length = static_cast<double>(rope.original_max_position_embeddings);
  const at::Tensor plain = PositionsPerRadian(rope.theta, head_dim).reciprocal_();
  const at::Tensor wavelength = plain.reciprocal().mul_(2 * kPi);
  const at::Tensor smooth = wavelength.reciprocal()
                                .mul_(length)
                                .sub_(rope.low_freq_factor)
                                .div_(rope.high_freq_factor - rope.low_freq_factor);
  const at::Tensor blended =
      smooth.neg().add_(1).mul_(plain).div_(rope.factor).add_(smooth.mul(plain));
  const at::Tensor slow = wavelength.gt(length / rope.low_freq_factor);
  const at::Tensor fast = wavelength.lt(length / rope.high_freq_factor);
  return at::where(slow, plain.div(rope.factor), at::where(fast, plain, blended));
}

at::Tensor InverseFrequencies(const RopeConfig& rope, int64_t head_dim) {
  switch (rope.type) {
    case RopeType::kYarn:
      return YarnFrequencies(rope, head_dim);
    case RopeType::kLlama3:
      return Llama3Frequencies(rope, head_dim);
    case RopeType::kLinear:
      return PositionsPerRadian(rope.theta, head_dim).reciprocal_().div_(rope.factor);
    case RopeType::kDefault:
      break;
  }
  return PositionsPerRadian(rope.theta, head_dim).reciprocal_();
}

}  // namespace

RotaryFrequencies MakeRotaryFrequencies(const RopeConfig& rope, int64_t head_dim) {
  return {InverseFrequencies(rope, head_dim), rope.attention_factor};
}

RotaryTables MakeRotaryTables(const at::Tensor& position_ids, const RotaryFrequencies& frequencies,
                              at::ScalarType dtype) {
  const at::Tensor angles =
      position_ids.to(at::kFloat).unsqueeze(1).mul(frequencies.inverse).unsqueeze(1);
  return {at::cos(angles).mul_(frequencies.scale).to(dtype),
          at::sin(angles).mul_(frequencies.scale).to(dtype)};
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

at::Tensor ApplyRotaryForTraining(const at::Tensor& x, const RotaryTables& tables) {
  const int64_t half = x.size(-1) / 2;
  const at::Tensor first = x.narrow(-1, 0, half);
  const at::Tensor second = x.narrow(-1, half, half);
  return at::cat({first.mul(tables.cos).sub(second.mul(tables.sin)),
                  second.mul(tables.cos).add(first.mul(tables.sin))},
                 -1);
}

}  // namespace canopy
