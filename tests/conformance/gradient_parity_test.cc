// Compares the gradients of every model family, on every backend that supports training, with those
// of transformers for each path alone. Run by conformance_test.sh, which makes the checkpoints
// first.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ATen/Parallel.h"
#include "ATen/ops/arange.h"
#include "ATen/ops/stack.h"
#include "absl/strings/match.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/model_config.h"
#include "core/model/weights.h"
#include "core/training/trainable_encoder.h"
#include "gtest/gtest.h"
#include "tests/conformance/checkpoint_engine.h"
#include "tests/conformance/reference_cases.h"
#include "tests/testing/test_device.h"

namespace canopy {
namespace {

constexpr double kMaxFloat32Error = 1e-4;
constexpr char kCase[] = "nested";  // as in make_family_checkpoints.py

// Returns the checkpoints whose reference contains gradients.
std::vector<std::string> NamesWithGradients() {
  std::vector<std::string> names;
  for (const std::string& name : CheckpointNames()) {
    if (absl::EndsWith(name, "_everything_bf16")) {
      names.push_back(name);
    }
  }
  return names;
}

struct GradientRoute {
  Backend backend;
  Packing packing;
};
constexpr GradientRoute kRoutes[] = {{Backend::kPath, Packing::kAuto},
                                     {Backend::kDense, Packing::kAuto},
                                     {Backend::kDense, Packing::kPadded},
                                     {Backend::kSegmented, Packing::kAuto}};

TreePlan PlanOf(const ReferenceCase& item, const GradientRoute& route, int64_t hidden_size) {
  RouteOptions options;
  options.backend = route.backend;
  options.packing = route.packing;
  options.hidden_size = static_cast<int32_t>(hidden_size);
  const auto plan = RequestPlan::Create(item.batch, options, 1 << 20);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan->BuildPart(0);
}

// Computes the loss of the script: each path's vector times fixed numbers.
at::Tensor LossOf(const at::Tensor& vectors, const std::vector<int32_t>& paths) {
  std::vector<at::Tensor> factors;
  factors.reserve(paths.size());
  for (const int32_t path : paths) {
    factors.push_back(at::arange(vectors.size(1), at::kDouble).add_(7.3 * path).mul_(2.1).sin_());
  }
  return vectors.mul(at::stack(factors).to(vectors.options())).sum();
}

class GradientParityTest : public ::testing::TestWithParam<std::string> {};

TEST_P(GradientParityTest, EveryBackendHasThoseOfTransformers) {
  at::set_num_threads(1);
  const std::string folder = CheckpointFolder(GetParam());
  const auto cases = ReadReferenceCases(folder);
  const auto gradients = LoadCheckpoint(folder + "/gradients");
  const auto config = LoadModelConfig(folder);
  const auto source = LoadCheckpoint(folder);
  ASSERT_TRUE(cases.ok() && gradients.ok() && config.ok() && source.ok());
  const auto weights = MatchWeights(*source, *config);
  ASSERT_TRUE(weights.ok()) << weights.status();
  const auto options = at::TensorOptions().dtype(at::kFloat).device(at::Device(TestDevice()));
  const auto encoder = TrainableEncoder::Create(*config, *weights, options);
  ASSERT_TRUE(encoder.ok()) << encoder.status();
  ASSERT_EQ((*encoder)->parameters().size(), gradients->tensors().size());
  for (const GradientRoute& route : kRoutes) {
    if (config->sliding_window > 0 && route.backend != Backend::kPath) {
      continue;
    }
    const TreePlan plan = PlanOf(cases->at(kCase), route, config->hidden_size);
    ASSERT_EQ(plan.backend, route.backend);
    const auto vectors = (*encoder)->Encode(plan, plan.endpoints, {});
    ASSERT_TRUE(vectors.ok()) << vectors.status();
    LossOf(*vectors, plan.paths).backward();
    for (const auto& [name, parameter] : (*encoder)->parameters()) {
      const TensorView* view = gradients->Find(name);
      ASSERT_NE(view, nullptr) << name;
      const at::Tensor expected = UploadWeight(*view, options);
      const double norm = expected.norm().item<double>();
      const double difference = parameter.grad().sub(expected).norm().item<double>();
      EXPECT_GT(norm, 0) << name;
      EXPECT_LE(difference, kMaxFloat32Error * norm)
          << name << " by " << BackendName(route.backend);
      parameter.mutable_grad() = at::Tensor();
    }
  }
}

// Only one of the scripts stores gradients.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GradientParityTest);
INSTANTIATE_TEST_SUITE_P(Checkpoints, GradientParityTest, ::testing::ValuesIn(NamesWithGradients()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace canopy
