#include "core/model/rotary.h"

#include <complex>
#include <cstdint>
#include <string>
#include <vector>

#include "ATen/CPUGeneratorImpl.h"
#include "ATen/ops/randn.h"
#include "ATen/ops/tensor.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

struct Expected {
  std::string name;
  RopeConfig rope;
  std::vector<float> inverse;
  double scale = 1.0;
};

RopeConfig Rope(RopeType type, double theta, double factor, int64_t original) {
  RopeConfig rope;
  rope.type = type;
  rope.theta = theta;
  rope.factor = factor;
  rope.original_max_position_embeddings = original;
  return rope;
}

RopeConfig UntruncatedYarn() {
  RopeConfig rope = Rope(RopeType::kYarn, 500000, 8, 64);
  rope.beta_fast = 16;
  rope.beta_slow = 2;
  rope.truncate = false;
  rope.attention_factor = 1.25;
  return rope;
}

// Returns what transformers 5.17 computes for heads of 16 with the same parameters.
const std::vector<Expected>& TransformersFrequencies() {
  static const auto* const expected = new std::vector<Expected>{
      {"default",
       Rope(RopeType::kDefault, 10000, 1, 0),
       {1.0F, 0.316227764F, 0.1F, 0.0316227786F, 0.01F, 0.00316227786F, 0.001F, 0.000316227786F}},
      {"linear",
       Rope(RopeType::kLinear, 10000, 2.5, 0),
       {0.400000006F, 0.1264911F, 0.0399999991F, 0.0126491114F, 0.00399999972F, 0.00126491114F,
        0.000400000019F, 0.000126491112F}},
      {"yarn",
       Rope(RopeType::kYarn, 10000, 4, 128),
       {1.0F, 0.237170815F, 0.049999997F, 0.00790569466F, 0.00249999994F, 0.000790569466F,
        0.000250000012F, 7.90569466e-05F}},
      {"yarn, not truncated",
       UntruncatedYarn(),
       {1.0F, 0.0242403448F, 0.00470075384F, 0.000911583134F, 0.000176776681F, 3.42810235e-05F,
        6.64786967e-06F, 1.28917316e-06F},
       1.25},
      {"yarn without room",
       Rope(RopeType::kYarn, 10000, 4, 1),
       {1.0F, 0.316227764F, 0.1F, 0.0316227786F, 0.01F, 0.00316227786F, 0.001F, 0.000316227786F}},
      {"llama3",
       Rope(RopeType::kLlama3, 500000, 8, 128),
       {1.0F, 0.191126496F, 0.00470075384F, 0.000911583134F, 0.000176776681F, 3.42810235e-05F,
        6.64786967e-06F, 1.28917316e-06F}},
  };
  return *expected;
}

TEST(RotaryFrequenciesTest, AreThoseOfTransformers) {
  for (const Expected& expected : TransformersFrequencies()) {
    const RotaryFrequencies frequencies = MakeRotaryFrequencies(expected.rope, 16);
    EXPECT_EQ(frequencies.scale, expected.scale) << expected.name;
    ASSERT_EQ(frequencies.inverse.numel(), 8) << expected.name;
    for (size_t pair = 0; pair < expected.inverse.size(); ++pair) {
      EXPECT_FLOAT_EQ(frequencies.inverse[static_cast<int64_t>(pair)].item<float>(),
                      expected.inverse[pair])
          << expected.name << " pair " << pair;
    }
  }
}

TEST(ApplyRotaryTest, TurnsPairsOfBothHalvesAsComplexNumbersAndScalesThem) {
  const at::Tensor x = at::randn({4, 2, 6}, at::detail::createCPUGenerator(6));
  const at::Tensor positions = at::tensor({0, 7, 1, 300}, at::kInt);
  const at::Tensor inverse = at::tensor({1.0, 0.1, 0.003}, at::kFloat);
  for (const double scale : {1.0, 1.5}) {
    const at::Tensor turned =
        ApplyRotary(x, MakeRotaryTables(positions, {inverse, scale}, at::kFloat));
    for (int64_t token = 0; token < 4; ++token) {
      for (int64_t pair = 0; pair < 3; ++pair) {
        const at::Tensor head = x[token][1];
        const std::complex<double> number(head[pair].item<double>(), head[pair + 3].item<double>());
        const double angle = positions[token].item<double>() * inverse[pair].item<double>();
        const std::complex<double> expected = number * std::polar(scale, angle);
        EXPECT_NEAR(turned[token][1][pair].item<double>(), expected.real(), 1e-4);
        EXPECT_NEAR(turned[token][1][pair + 3].item<double>(), expected.imag(), 1e-4);
      }
    }
  }
}

}  // namespace
}  // namespace canopy
