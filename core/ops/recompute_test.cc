#include "core/ops/recompute.h"

#include <vector>

#include "ATen/Context.h"
#include "ATen/ops/arange.h"
#include "ATen/ops/dropout.h"
#include "ATen/ops/ones.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

at::Tensor Leaf(double step) {
  return at::arange(6, at::kFloat).mul_(step).add_(1).set_requires_grad(true);
}

TEST(RecomputeInBackwardTest, RunsAgainAndGivesTheGradientsOfItsInputs) {
  const at::Tensor a = Leaf(0.3);
  const at::Tensor b = Leaf(-0.2);
  const at::Tensor constant = at::ones({6}).mul_(3);
  int calls = 0;
  const at::Tensor sum = RecomputeInBackward(
                             [&calls](const std::vector<at::Tensor>& inputs) {
                               ++calls;
                               EXPECT_FALSE(inputs[2].defined());
                               return std::vector<at::Tensor>{
                                   inputs[0].mul(inputs[1]).mul(inputs[3]), inputs[0].argmax()};
                             },
                             {a, b, at::Tensor(), constant})
                             .front()
                             .sum();
  EXPECT_EQ(calls, 1);
  sum.backward();
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(a.grad().equal(b.detach().mul(3)));
  EXPECT_TRUE(b.grad().equal(a.detach().mul(3)));
}

TEST(RecomputeInBackwardTest, DrawsTheSameRandomNumbersAndLeavesTheGeneratorAsItWas) {
  const at::Tensor x = Leaf(0.5);
  const at::Tensor output = RecomputeInBackward(
                                [](const std::vector<at::Tensor>& inputs) {
                                  return std::vector{at::dropout(inputs[0], 0.5, true)};
                                },
                                {x})
                                .front();
  at::manual_seed(3);
  output.sum().backward();
  const at::Tensor after = at::dropout(at::ones({64}), 0.5, true);
  at::manual_seed(3);
  EXPECT_TRUE(after.equal(at::dropout(at::ones({64}), 0.5, true)));
  // Dropped elements have no gradient; the others have gradient 2. So gradient * x equals the
  // output.
  EXPECT_TRUE(x.grad().mul(x.detach()).equal(output.detach()));
}

TEST(RecomputeInBackwardTest, IsAPlainCallWhereNobodyWantsGradients) {
  const at::Tensor output =
      RecomputeInBackward(
          [](const std::vector<at::Tensor>& inputs) { return std::vector{inputs[0].add(1)}; },
          {at::ones({2})})
          .front();
  EXPECT_FALSE(output.requires_grad());
  EXPECT_EQ(output.sum().item<float>(), 4);
}

}  // namespace
}  // namespace canopy
