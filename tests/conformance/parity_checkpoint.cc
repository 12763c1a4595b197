#include "tests/conformance/parity_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/engine/torch_runner.h"
#include "core/ops/reference_kernel_ops.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

double LargestRelativeError(const Matrix& actual, const Matrix& expected) {
  const std::vector<double> errors = SquaredRelativeErrors(actual, expected);
  return std::sqrt(*std::max_element(errors.begin(), errors.end()));
}

}  // namespace

const std::vector<ParityRoute>& ParityRoutes() {
  static const auto* const routes = new std::vector<ParityRoute>{
      {"path", Backend::kPath, Packing::kAuto, 1 << 20},
      {"dense", Backend::kDense, Packing::kAuto, 1 << 20},
      {"dense_padded", Backend::kDense, Packing::kPadded, 1 << 20},
      {"segmented", Backend::kSegmented, Packing::kAuto, 1 << 20},
      {"fused", Backend::kFused, Packing::kAuto, 1 << 20},
      {"auto", Backend::kAuto, Packing::kAuto, 1 << 20},
      {"path_in_parts", Backend::kPath, Packing::kAuto, 300},
      {"dense_in_parts", Backend::kDense, Packing::kAuto, 300},
      {"segmented_in_parts", Backend::kSegmented, Packing::kPadded, 300},
      {"fused_in_parts", Backend::kFused, Packing::kAuto, 300},
  };
  return *routes;
}

const std::vector<ParityRoute>& ParityPathRoutes() {
  static const auto* const routes = new std::vector<ParityRoute>{
      {"path", Backend::kPath, Packing::kAuto, 1 << 20},
      {"auto", Backend::kAuto, Packing::kAuto, 1 << 20},
      {"path_in_parts", Backend::kPath, Packing::kAuto, 300},
  };
  return *routes;
}

ParityCheckpoint::ParityCheckpoint(absl::string_view name, absl::string_view dtype) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/checkpoints/", name);
  TorchRunnerOptions options;
  options.name = std::string(name);
  options.source = folder;
  options.device = "cpu";
  options.dtype = std::string(dtype);
  // Small tensors: a second thread would only wait for the first.
  options.threads = 1;
  options.kernels = ReferenceKernels();
  auto runner = LoadTorchRunner(options);
  EXPECT_TRUE(runner.ok()) << runner.status();
  runner_ = *std::move(runner);
  auto cases = ReadReferenceCases(folder);
  EXPECT_TRUE(cases.ok()) << cases.status();
  cases_ = *std::move(cases);
}

RequestPlan ParityCheckpoint::Plan(const ReferenceCase& item, const ParityRoute& route) const {
  RouteOptions options;
  options.backend = route.backend;
  options.packing = route.packing;
  options.hidden_size = static_cast<int32_t>(info().hidden_size);
  options.tree_supported = info().tree_supported;
  options.fused_supported = info().fused_supported;
  auto plan = RequestPlan::Create(item.batch, options, route.max_batch_tokens);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

void ExpectFloat32Parity(const ParityCheckpoint& checkpoint, const ParityRoute& route) {
  for (const auto& [name, item] : checkpoint.cases()) {
    const std::string what = absl::StrCat(name, " by ", route.name);
    const auto answer = RunPlan(checkpoint.runner(), checkpoint.Plan(item, route));
    ASSERT_TRUE(answer.ok()) << what << answer.status();
    EXPECT_TRUE(answer->finite) << what;
    EXPECT_LE(LargestRelativeError(answer->vectors, item.vectors), kMaxFloat32Error) << what;
    ASSERT_EQ(answer->scores.values.size(), item.scores.values.size()) << what;
    for (size_t i = 0; i < item.scores.values.size(); ++i) {
      const double expected = item.scores.values[i];
      EXPECT_NEAR(answer->scores.values[i], expected, 1e-4 * (1 + std::abs(expected))) << what;
    }
  }
}

void ExpectHalfParity(const ParityCheckpoint& checkpoint, const ParityRoute& route,
                      Matrix ReferenceCase::*half) {
  double ours = 0;
  double theirs = 0;
  size_t candidates = 0;
  for (const auto& [name, item] : checkpoint.cases()) {
    const auto answer = RunPlan(checkpoint.runner(), checkpoint.Plan(item, route));
    ASSERT_TRUE(answer.ok()) << name << answer.status();
    for (const double error : SquaredRelativeErrors(answer->vectors, item.vectors)) {
      ours += error;
    }
    for (const double error : SquaredRelativeErrors(item.*half, item.vectors)) {
      theirs += error;
      ++candidates;
    }
  }
  EXPECT_GE(candidates, kMinHalfCandidates);
  EXPECT_GT(theirs, 0);
  const double ratio = std::sqrt(ours / theirs);
  EXPECT_LE(ratio, kMaxHalfErrorRatio) << route.name;
  ::testing::Test::RecordProperty(absl::StrCat(route.name, "_error_ratio"), absl::StrCat(ratio));
}

}  // namespace canopy
